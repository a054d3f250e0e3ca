/* SPDX-License-Identifier: MIT */
/* Both formats use these functions to take bytes, to check them and to count losses. */
#include "nettrace/reader_parts.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/text.h"

#define RANGES_MAX 1024u

int rp_reader_fail(struct rp_reader *reader, int error, uint64_t offset, const char *format, ...)
{
	va_list args;
	int used;

	va_start(args, format);
	used = vsnprintf(reader->message, sizeof(reader->message), format, args);
	va_end(args);
	if (used >= 0 && (size_t)used < sizeof(reader->message))
		snprintf(reader->message + used, sizeof(reader->message) - used,
			 " at offset %" PRIu64, offset);
	reader->error = error;
	reader->sequence = NULL;
	return error;
}

int rp_reader_take(struct rp_reader *reader, size_t size, const uint8_t **ret_bytes)
{
	int ret = rp_byte_source_take(&reader->source, size, ret_bytes);

	if (ret == -ENODATA)
		return rp_reader_fail(reader, ret, reader->source.offset,
				      "the file stops before its end");
	if (ret < 0)
		return rp_reader_fail(reader, ret, reader->source.offset, "%s",
				      rp_text_error(-ret));
	return 0;
}

int rp_reader_take_u32(struct rp_reader *reader, uint32_t *ret_value)
{
	const uint8_t *bytes;
	int ret = rp_reader_take(reader, sizeof(*ret_value), &bytes);

	if (!ret)
		memcpy(ret_value, bytes, sizeof(*ret_value));
	return ret;
}

void rp_reader_count_missing(struct rp_reader *reader, uint32_t last, uint32_t expected,
			     bool is_comparable)
{
	const int32_t step = (int32_t)(expected - last);

	if (is_comparable)
		rp_reader_count_lost(reader, last, expected);
	else if (reader->resume.is_enabled && !reader->spans && step > 0)
		reader->resume.lost_events += (uint32_t)step;
}

int rp_reader_take_content(struct rp_reader *reader, uint32_t size, bool has_events,
			   struct rp_cursor *ret_block)
{
	const uint8_t *bytes;
	size_t there = size;
	int ret;

	ret = rp_reader_take(reader, size, &bytes);
	if (ret == -ENODATA && has_events && !reader->is_growing) {
		there = rp_byte_source_take_rest(&reader->source, &bytes);
		reader->truncated = true;
		reader->error = 0;
		reader->message[0] = 0;
	} else if (ret < 0) {
		return ret;
	}
	ret_block->at = bytes;
	ret_block->end = bytes + there;
	return 0;
}

int rp_reader_begin_events(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	reader->block_offset = offset;
	if (rp_wire_block_header(&block, &reader->layout) < 0) {
		if (reader->truncated)
			return rp_reader_fail(reader, -ENODATA, offset,
					      "the file stops before its end");
		return rp_reader_fail(reader, -EBADMSG, offset, "a damaged event block");
	}
	memset(&reader->event, 0, sizeof(reader->event));
	reader->sequence = NULL;
	reader->events = block;
	return 0;
}

int rp_reader_take_stacks(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	int ret = rp_point_index_add_stacks(&reader->frames, block);

	if (ret == -ENOMEM)
		return rp_reader_fail(reader, ret, offset, "no memory for stacks");
	if (ret == -E2BIG)
		return rp_reader_fail(reader, -EBADMSG, offset,
				      "too many stacks without a sequence point");
	return ret < 0 ? rp_reader_fail(reader, -EBADMSG, offset, "a damaged stack block") : 0;
}

enum rp_block_kind rp_block_kind_of(const uint8_t *name, size_t bytes)
{
	static const char *const names[] = {
		[RP_BLOCK_EVENT] = "EventBlock",
		[RP_BLOCK_METADATA] = "MetadataBlock",
		[RP_BLOCK_SEQUENCE_POINT] = "SPBlock",
		[RP_BLOCK_STACK] = "StackBlock",
	};

	for (size_t i = RP_BLOCK_EVENT; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strlen(names[i]) == bytes && !memcmp(names[i], name, bytes))
			return (enum rp_block_kind)i;
	}
	return RP_BLOCK_END;
}

/* Return the days from 1970-01-01 to a Gregorian date. A year begins with March here. */
static int64_t days_since_1970(int64_t year, int month, int day)
{
	int64_t shifted = month <= 2 ? year - 1 : year;
	int64_t era = shifted / 400, of_era = shifted % 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* The bytes: year, month, day of week, day, hour, minute, second, millisecond, each a u16. */
int64_t rp_reader_utc_ns(const uint8_t *bytes)
{
	uint16_t f[8];
	int64_t seconds;

	memcpy(f, bytes, sizeof(f));
	/* Nanoseconds in 64 bits reach from 1678 to 2262. */
	if (f[0] < 1700 || f[0] > 2261 || f[1] < 1 || f[1] > 12 || f[3] < 1 || f[3] > 31 ||
	    f[4] > 23 || f[5] > 59 || f[6] > 60 || f[7] > 999)
		return 0;
	seconds = days_since_1970(f[0], f[1], f[3]) * 86400 + f[4] * 3600 + f[5] * 60 + f[6];
	return seconds * 1000000000 + f[7] * 1000000ll;
}

int rp_reader_check_info(struct rp_reader *reader)
{
	const struct rp_reader_info *info = &reader->info;

	if (!info->ticks_per_second || info->ticks_per_second > INT64_MAX)
		return rp_reader_fail(reader, -EBADMSG, reader->source.offset,
				      "a clock without a rate");
	if (info->pointer_bytes != 4 && info->pointer_bytes != 8)
		return rp_reader_fail(reader, -EBADMSG, reader->source.offset,
				      "pointers of %u bytes", info->pointer_bytes);
	return 0;
}

void rp_reader_add_damage(struct rp_reader *reader, uint64_t offset, uint64_t bytes,
			  const char *reason)
{
	struct rp_reader_resume *resume = &reader->resume;
	struct rp_reader_damage *ranges = (void *)resume->ranges.bytes, damage = {
		.size = sizeof(damage), .offset = offset, .bytes = bytes, .reason = reason,
	};
	const size_t count = resume->ranges.size / sizeof(damage);

	resume->damaged_bytes += bytes;
	if (count && resume->range_count == count &&
	    ranges[count - 1].offset + ranges[count - 1].bytes == offset) {
		ranges[count - 1].bytes += bytes;
		return;
	}
	resume->range_count++;
	if (count < RANGES_MAX)
		rp_outbuf_put(&resume->ranges, &damage, sizeof(damage));
}
