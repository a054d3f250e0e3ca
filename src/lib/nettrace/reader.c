/* SPDX-License-Identifier: MIT */
/* A pull parser: objects one after another, the events of an EventBlock one per call. */
#include <ringpipe/reader.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/sized.h"
#include "base/text.h"
#include "nettrace/convert.h"
#include "nettrace/describe.h"
#include "nettrace/event_header.h"
#include "nettrace/format.h"
#include "nettrace/frames.h"
#include "nettrace/source.h"
#include "nettrace/thread_table.h"

/* Larger blocks are refused: the .NET runtime's have 100 KB, ours less. */
#define BLOCK_MAX (64u << 20)
#define NAME_BYTES_MAX 64u

struct rp_reader {
	struct rp_byte_source source;
	int own_fd;			/* to be closed, or -1 */
	int error;			/* sticky */
	bool ended;
	char message[160];
	struct rp_reader_info info;
	struct rp_reader_stats stats;
	struct rp_type_table types;
	struct rp_thread_table threads;
	struct rp_frame_index frames;

	/* The EventBlock whose events are being given out. */
	struct rp_cursor events;
	const uint8_t *block_start;
	uint64_t block_offset;
	bool compressed;
	bool truncated;			/* the file ended within it */
	struct rp_wire_event event;
	uint64_t last_time;
};

struct trace_object {
	char name[NAME_BYTES_MAX + 1];
	uint32_t version, min_reader;
	uint64_t version_at;
};

#define VERSION_MESSAGE "nettrace version %u, while version %u alone can be read,"

__attribute__((format(printf, 4, 5)))
static int fail(struct rp_reader *reader, int error, uint64_t offset, const char *format, ...)
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
	return error;
}

static int take(struct rp_reader *reader, size_t size, const uint8_t **ret_bytes)
{
	int ret = rp_byte_source_take(&reader->source, size, ret_bytes);

	if (ret == -ENODATA)
		return fail(reader, ret, reader->source.offset, "the file stops before its end");
	if (ret < 0)
		return fail(reader, ret, reader->source.offset, "%s", rp_text_error(-ret));
	return 0;
}

static int take_u32(struct rp_reader *reader, uint32_t *ret_value)
{
	const uint8_t *bytes;
	int ret = take(reader, sizeof(*ret_value), &bytes);

	if (!ret)
		memcpy(ret_value, bytes, sizeof(*ret_value));
	return ret;
}

static int take_tag(struct rp_reader *reader, uint8_t expected)
{
	const uint8_t *tag;
	int ret = take(reader, 1, &tag);

	if (!ret && *tag != expected)
		return fail(reader, -EBADMSG, reader->source.offset - 1, "tag %u instead of %u",
			    *tag, expected);
	return ret;
}

/* Return: 1 with an object whose content is next; 0 at the end of the stream; negative. */
static int begin_object(struct rp_reader *reader, struct trace_object *object)
{
	const uint8_t *bytes;
	uint32_t size = 0;
	int ret;

	ret = take(reader, 1, &bytes);
	if (ret < 0)
		return ret;
	if (*bytes == RP_TAG_NULL)
		return 0;
	if (*bytes != RP_TAG_BEGIN)
		return fail(reader, -EBADMSG, reader->source.offset - 1, "no object but tag %u",
			    *bytes);
	if ((ret = take_tag(reader, RP_TAG_BEGIN)) < 0 ||
	    (ret = take_tag(reader, RP_TAG_NULL)) < 0)
		return ret;
	object->version_at = reader->source.offset;
	if ((ret = take_u32(reader, &object->version)) < 0 ||
	    (ret = take_u32(reader, &object->min_reader)) < 0 ||
	    (ret = take_u32(reader, &size)) < 0)
		return ret;
	if (!size || size > NAME_BYTES_MAX)
		return fail(reader, -EBADMSG, reader->source.offset - 4,
			    "an object's name has %u bytes", size);
	ret = take(reader, size, &bytes);
	if (ret < 0)
		return ret;
	memcpy(object->name, bytes, size);
	object->name[size] = 0;
	ret = take_tag(reader, RP_TAG_END);
	return ret < 0 ? ret : 1;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar; March is the first month of a year. */
static int64_t days_since_1970(int64_t year, int month, int day)
{
	int64_t shifted = month <= 2 ? year - 1 : year;
	int64_t era = shifted / 400, of_era = shifted % 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Year, month, day of week, day, hour, minute, second, millisecond. 0: no such time. */
static int64_t utc_ns(const uint8_t *bytes)
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

static int take_trace(struct rp_reader *reader)
{
	struct rp_reader_info *info = &reader->info;
	const uint8_t *bytes;
	int ret = take(reader, RP_TRACE_BYTES, &bytes);

	if (ret < 0)
		return ret;
	info->start_utc_ns = utc_ns(bytes);
	memcpy(&info->start_ticks, bytes + 16, 8);
	memcpy(&info->ticks_per_second, bytes + 24, 8);
	memcpy(&info->pointer_bytes, bytes + 32, 4);
	memcpy(&info->process_id, bytes + 36, 4);
	memcpy(&info->processors, bytes + 40, 4);
	if (!info->ticks_per_second || info->ticks_per_second > INT64_MAX)
		return fail(reader, -EBADMSG, reader->source.offset, "a clock without a rate");
	if (info->pointer_bytes != 4 && info->pointer_bytes != 8)
		return fail(reader, -EBADMSG, reader->source.offset, "pointers of %u bytes",
			    info->pointer_bytes);
	return take_tag(reader, RP_TAG_END);
}

/* From version 6 on, zeros and the version follow the magic. */
static int refuse_later_format(struct rp_reader *reader)
{
	uint64_t offset = reader->source.offset;
	uint32_t version = 0;
	int ret = take_u32(reader, &version);

	return ret < 0 ? ret : fail(reader, -EPROTONOSUPPORT, offset, VERSION_MESSAGE, version,
				    RP_TRACE_VERSION);
}

static int take_header(struct rp_reader *reader)
{
	struct trace_object object;
	const uint8_t *bytes;
	uint32_t size = 0;
	int ret;

	ret = take(reader, 8, &bytes);
	if (ret < 0)
		return ret;
	if (memcmp(bytes, RP_NETTRACE_MAGIC, 8))
		return -EBADMSG;
	ret = take_u32(reader, &size);
	if (ret < 0)
		return ret;
	if (!size)
		return refuse_later_format(reader);
	if (size != strlen(RP_NETTRACE_SERIALIZER))
		return -EBADMSG;
	ret = take(reader, size, &bytes);
	if (ret < 0)
		return ret;
	if (memcmp(bytes, RP_NETTRACE_SERIALIZER, size))
		return -EBADMSG;
	ret = begin_object(reader, &object);
	if (ret <= 0)
		return ret < 0 ? ret : -EBADMSG;
	if (strcmp(object.name, "Trace"))
		return -EBADMSG;
	if (object.version != RP_TRACE_VERSION || object.min_reader > RP_TRACE_VERSION)
		return fail(reader, -EPROTONOSUPPORT, object.version_at, VERSION_MESSAGE,
			    object.version, RP_TRACE_VERSION);
	return take_trace(reader);
}

/* `message`: room for what rp_reader_error() would say of a failure, or NULL. */
static int open_reader(struct rp_byte_source source, int own_fd, struct rp_reader **ret_reader,
		       char *message, size_t message_bytes)
{
	struct rp_reader *reader = calloc(1, sizeof(*reader));
	int ret;

	if (!reader) {
		if (own_fd >= 0)
			close(own_fd);
		return -ENOMEM;
	}
	reader->source = source;
	reader->own_fd = own_fd;
	reader->info.size = sizeof(reader->info);
	reader->stats.size = sizeof(reader->stats);
	ret = take_header(reader);
	if (message)
		snprintf(message, message_bytes, "%s", reader->message);
	if (ret < 0) {
		rp_reader_close(reader);
		return ret == -ENODATA ? -EBADMSG : ret;
	}
	*ret_reader = reader;
	return 0;
}

int rp_reader_open(const char *path, struct rp_reader **ret_reader)
{
	struct rp_byte_source source;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	rp_byte_source_init_fd(&source, fd);
	return open_reader(source, fd, ret_reader, NULL, 0);
}

int rp_reader_open_fd(int fd, struct rp_reader **ret_reader)
{
	struct rp_byte_source source;

	rp_byte_source_init_fd(&source, fd);
	return open_reader(source, -1, ret_reader, NULL, 0);
}

int rp_reader_open_explained(int fd, struct rp_reader **ret_reader, char *ret_message,
			     size_t message_bytes)
{
	struct rp_byte_source source;

	rp_byte_source_init_fd(&source, fd);
	return open_reader(source, -1, ret_reader, ret_message, message_bytes);
}

int rp_reader_open_memory(const void *bytes, size_t size, struct rp_reader **ret_reader)
{
	struct rp_byte_source source;

	rp_byte_source_init_memory(&source, bytes, size);
	return open_reader(source, -1, ret_reader, NULL, 0);
}

void rp_reader_close(struct rp_reader *reader)
{
	if (!reader)
		return;
	rp_byte_source_fini(&reader->source);
	if (reader->own_fd >= 0)
		close(reader->own_fd);
	rp_type_table_fini(&reader->types);
	rp_thread_table_fini(&reader->threads);
	rp_frame_index_fini(&reader->frames);
	free(reader);
}

/*
 * Count losses by the step from a thread's last number to the number before its next, as TraceEvent
 * does. 0 means an unknown thread. A backward step counts as INT32_MAX, the largest step. A number
 * that starts over at 1 means that the thread id was reused.
 */
static void count_lost(struct rp_reader *reader, uint32_t last, uint32_t expected)
{
	int32_t step = expected - last;

	if (last && expected && step)
		reader->stats.lost += step > 0 ? step : INT32_MAX;
}

static int take_sequence_point(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	struct rp_thread_slot *slot;
	uint32_t count, sequence;
	uint64_t time, thread;
	size_t known;

	if (rp_cursor_u64(&block, &time) < 0 || rp_cursor_u32(&block, &count) < 0 ||
	    count > rp_cursor_left(&block) / 12)
		return fail(reader, -EBADMSG, offset, "a damaged sequence point");
	while (count--) {
		if (rp_cursor_u64(&block, &thread) < 0 || rp_cursor_u32(&block, &sequence) < 0)
			return fail(reader, -EBADMSG, offset, "a damaged sequence point");
		known = reader->threads.count;
		if (rp_thread_table_add(&reader->threads, thread, &slot) < 0)
			return fail(reader, -ENOMEM, offset, "no memory for threads");
		if (reader->threads.count == known)
			count_lost(reader, slot->sequence, sequence);
		slot->sequence = sequence;
	}
	rp_frame_index_clear(&reader->frames);
	reader->stats.sequence_points++;
	return 0;
}

static int take_metadata(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	struct rp_wire_event event = { 0 };
	const uint8_t *start = block.at;
	struct rp_cursor blob;
	bool compressed;
	int ret;

	if (rp_wire_block_header(&block, &compressed) < 0)
		return fail(reader, -EBADMSG, offset, "a damaged metadata block");
	while (block.at < block.end) {
		uint64_t at = offset + (block.at - start);

		if (rp_wire_event_take(&block, start, compressed, &event, &blob) < 0)
			return fail(reader, -EBADMSG, at, "a damaged metadata event");
		ret = rp_type_table_add(&reader->types, blob);
		if (ret == -ENOMEM)
			return fail(reader, ret, at, "no memory for definitions");
		if (ret < 0)
			return fail(reader, -EBADMSG, at, ret == -EEXIST ?
				    "an event defined twice" : "a damaged event definition");
	}
	return 0;
}

static int begin_events(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	reader->block_start = block.at;
	reader->block_offset = offset;
	if (rp_wire_block_header(&block, &reader->compressed) < 0) {
		if (reader->truncated)
			return fail(reader, -ENODATA, offset, "the file stops before its end");
		return fail(reader, -EBADMSG, offset, "a damaged event block");
	}
	memset(&reader->event, 0, sizeof(reader->event));
	reader->events = block;
	return 0;
}

static int take_stacks(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	int ret = rp_frame_index_add(&reader->frames, block);

	if (ret == -ENOMEM)
		return fail(reader, ret, offset, "no memory for stacks");
	if (ret == -E2BIG)
		return fail(reader, -EBADMSG, offset, "too many stacks without a sequence point");
	return ret < 0 ? fail(reader, -EBADMSG, offset, "a damaged stack block") : 0;
}

/* Take a block's size and content. A truncated EventBlock yields the bytes that are there. */
static int take_content(struct rp_reader *reader, bool events, struct rp_cursor *ret_block)
{
	const uint8_t *bytes;
	uint32_t size = 0;
	size_t there;
	int ret = take_u32(reader, &size);

	if (ret < 0)
		return ret;
	if (size > BLOCK_MAX)
		return fail(reader, -EBADMSG, reader->source.offset - 4, "a block of %u bytes",
			    size);
	ret = take(reader, -reader->source.offset & 3, &bytes);
	if (ret < 0)
		return ret;
	there = size;
	ret = take(reader, size, &bytes);
	if (ret == -ENODATA && events) {
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

/* Return: 1: one object was read; 0: the end of the stream; negative. */
static int take_object(struct rp_reader *reader)
{
	struct rp_cursor block;
	struct trace_object object;
	uint64_t offset;
	bool events;
	int ret = begin_object(reader, &object);

	if (ret <= 0)
		return ret;
	if (object.version > RP_BLOCK_VERSION || object.min_reader > RP_BLOCK_VERSION)
		return fail(reader, -EPROTONOSUPPORT, object.version_at,
			    "a block of version %u, while versions up to %u can be read,",
			    object.version, RP_BLOCK_VERSION);
	events = !strcmp(object.name, "EventBlock");
	ret = take_content(reader, events, &block);
	if (ret < 0)
		return ret;
	offset = reader->source.offset - (block.end - block.at);
	if (events)
		ret = begin_events(reader, block, offset);
	else if (!strcmp(object.name, "MetadataBlock"))
		ret = take_metadata(reader, block, offset);
	else if (!strcmp(object.name, "StackBlock"))
		ret = take_stacks(reader, block, offset);
	else if (!strcmp(object.name, "SPBlock"))
		ret = take_sequence_point(reader, block, offset);
	else
		ret = fail(reader, -EBADMSG, offset, "an object of unknown type");
	/* The end tag after an EventBlock is looked at when its events are out. */
	if (!ret && !events)
		ret = take_tag(reader, RP_TAG_END);
	return ret < 0 ? ret : 1;
}

static int64_t relative_ns(const struct rp_reader_info *info, uint64_t ticks)
{
	__int128 ns = (__int128)(int64_t)(ticks - info->start_ticks) * 1000000000 /
		(__int128)info->ticks_per_second;

	if (ns > INT64_MAX)
		return INT64_MAX;
	return ns < INT64_MIN ? INT64_MIN : (int64_t)ns;
}

/* Counts the event in: its thread's number, its place in time. */
static int count_event(struct rp_reader *reader)
{
	const struct rp_wire_event *wire = &reader->event;
	struct rp_thread_slot *slot;
	size_t known = reader->threads.count;

	if (rp_thread_table_add(&reader->threads, wire->capture_thread, &slot) < 0)
		return -ENOMEM;
	if (reader->threads.count == known)
		count_lost(reader, slot->sequence, wire->sequence - 1);
	slot->sequence = wire->sequence;
	reader->stats.threads += !slot->marked;
	slot->marked = 1;
	if (reader->stats.events && (int64_t)(wire->time - reader->last_time) < 0)
		reader->stats.unordered++;
	reader->last_time = wire->time;
	reader->stats.events++;
	return 0;
}

static void give(const struct rp_reader *reader, struct rp_reader_type *type,
		 struct rp_cursor payload, struct rp_reader_event *ret_event)
{
	const struct rp_wire_event *wire = &reader->event;
	struct rp_reader_event event = {
		.sequence = wire->sequence,
		.type = type,
		.time_ns = relative_ns(&reader->info, wire->time),
		.thread = wire->thread,
		.capture_thread = wire->capture_thread,
		.processor = wire->processor,
		.payload = payload.at,
		.payload_bytes = rp_cursor_left(&payload),
	};
	size_t frame_bytes;

	event.frames = rp_frame_index_find(&reader->frames, wire->stack, &frame_bytes);
	event.frame_count = frame_bytes / reader->info.pointer_bytes;
	rp_guid_swap(wire->activity, event.activity.bytes);
	rp_guid_swap(wire->related, event.related_activity.bytes);
	rp_sized_write(ret_event, &event, sizeof(event));
}

/* Return: 1 with an event; 0: the block is at its end. */
static int next_of_block(struct rp_reader *reader, struct rp_reader_event *ret_event)
{
	uint64_t at = reader->block_offset + (reader->events.at - reader->block_start);
	struct rp_reader_type *type;
	struct rp_cursor payload;

	if (reader->events.at == reader->events.end && !reader->truncated)
		return 0;
	if (rp_wire_event_take(&reader->events, reader->block_start, reader->compressed,
			       &reader->event, &payload) < 0) {
		if (reader->truncated)
			return fail(reader, -ENODATA, at, "the file stops before its end");
		return fail(reader, -EBADMSG, at, "a damaged event");
	}
	type = rp_type_table_find(&reader->types, reader->event.metadata_id);
	if (!type)
		return fail(reader, -EBADMSG, at, "an event of unknown type %u",
			    reader->event.metadata_id);
	if (count_event(reader) < 0)
		return fail(reader, -ENOMEM, at, "no memory for threads");
	give(reader, type, payload, ret_event);
	return 1;
}

int rp_reader_next(struct rp_reader *reader, struct rp_reader_event *ret_event)
{
	int ret;

	if (!ret_event || !rp_sized_fits(ret_event, RP_READER_EVENT_SIZE_V1))
		return -EINVAL;
	while (!reader->error && !reader->ended) {
		if (reader->block_start) {
			ret = next_of_block(reader, ret_event);
			if (ret)
				return ret;
			reader->block_start = NULL;
			if (take_tag(reader, RP_TAG_END) < 0)
				break;
		}
		if (!take_object(reader))
			reader->ended = true;
	}
	return reader->error;
}

int rp_reader_get_info(const struct rp_reader *reader, struct rp_reader_info *ret_info)
{
	if (!ret_info || !rp_sized_fits(ret_info, RP_READER_INFO_SIZE_V1))
		return -EINVAL;
	rp_sized_write(ret_info, &reader->info, sizeof(reader->info));
	return 0;
}

int rp_reader_get_stats(const struct rp_reader *reader, struct rp_reader_stats *ret_stats)
{
	struct rp_reader_stats stats = reader->stats;

	if (!ret_stats || !rp_sized_fits(ret_stats, RP_READER_STATS_SIZE_V1))
		return -EINVAL;
	stats.ended = reader->ended;
	stats.bytes = reader->source.offset;
	rp_sized_write(ret_stats, &stats, sizeof(stats));
	return 0;
}

const char *rp_reader_error(const struct rp_reader *reader)
{
	return reader->message;
}
