/* SPDX-License-Identifier: MIT */
#include "nettrace/objects.h"

#include <stdio.h>

#include "nettrace/format.h"

void rp_object_stream_put(struct rp_object_stream *stream, const void *bytes, size_t size)
{
	memcpy(stream->output.bytes + stream->output.size, bytes, size);
	stream->output.size += size;
	stream->offset += size;
}

void rp_object_stream_put_u32(struct rp_object_stream *stream, uint32_t value)
{
	rp_object_stream_put(stream, &value, sizeof(value));
}

void rp_object_stream_put_u64(struct rp_object_stream *stream, uint64_t value)
{
	rp_object_stream_put(stream, &value, sizeof(value));
}

int rp_object_stream_reserve(struct rp_object_stream *stream, size_t size)
{
	struct rp_outbuf *output = &stream->output;

	if (stream->head && output->capacity - output->size < size) {
		memmove(output->bytes, output->bytes + stream->head,
			output->size - stream->head);
		output->size -= stream->head;
		stream->head = 0;
	}
	return rp_outbuf_reserve(output, size);
}

static void begin_object(struct rp_object_stream *stream, const char *name, uint32_t version)
{
	static const uint8_t begin[] = { RP_TAG_BEGIN, RP_TAG_BEGIN, RP_TAG_NULL };
	static const uint8_t end[] = { RP_TAG_END };

	rp_object_stream_put(stream, begin, sizeof(begin));
	rp_object_stream_put_u32(stream, version);
	rp_object_stream_put_u32(stream, version);
	rp_object_stream_put_u32(stream, strlen(name));
	rp_object_stream_put(stream, name, strlen(name));
	rp_object_stream_put(stream, end, sizeof(end));
}

void rp_object_stream_end_block(struct rp_object_stream *stream)
{
	static const uint8_t end[] = { RP_TAG_END };

	rp_object_stream_put(stream, end, rp_object_stream_end_bytes(stream));
}

void rp_object_stream_begin_block(struct rp_object_stream *stream, enum rp_block_kind kind,
				  uint32_t size)
{
	static const char *const names[] = {
		[RP_BLOCK_EVENT] = "EventBlock",
		[RP_BLOCK_METADATA] = "MetadataBlock",
		[RP_BLOCK_SEQUENCE_POINT] = "SPBlock",
		[RP_BLOCK_STACK] = "StackBlock",
	};
	static const uint8_t padding[4];

	if (stream->is_v6) {
		rp_object_stream_put_u32(stream, size | (uint32_t)kind << 24);
		return;
	}
	begin_object(stream, names[kind], RP_BLOCK_VERSION);
	rp_object_stream_put_u32(stream, size);
	rp_object_stream_put(stream, padding, -stream->offset & 3);
}

void rp_object_stream_put_block(struct rp_object_stream *stream, enum rp_block_kind kind,
				const void *content, size_t size)
{
	rp_object_stream_begin_block(stream, kind, size);
	rp_object_stream_put(stream, content, size);
	rp_object_stream_end_block(stream);
}

int rp_object_stream_put_end(struct rp_object_stream *stream)
{
	static const uint8_t end[] = { RP_TAG_NULL };
	int ret = rp_object_stream_reserve(stream, RP_OBJECT_BYTES);

	if (ret < 0)
		return ret;
	if (stream->is_v6)
		rp_object_stream_put_block(stream, RP_BLOCK_END, end, 0);
	else
		rp_object_stream_put(stream, end, sizeof(end));
	return 0;
}

/*
 * Not gmtime_r(3): it takes a lock that libc never releases in a child that was forked while
 * another thread held it. Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
 * civil_from_days. Years begin in March there, so that a leap day is a year's last.
 */
void rp_object_stream_put_utc(struct rp_object_stream *stream, int64_t utc_ns)
{
	int64_t ms = utc_ns / 1000000 - (utc_ns % 1000000 < 0);
	int64_t days = ms / 86400000 - (ms % 86400000 < 0);
	int64_t ms_of_day = ms - days * 86400000;
	int64_t since_0 = days + 719468;	/* 0000-03-01 */
	int64_t era = since_0 / 146097;		/* of 400 years; no time of 64 bits is before 0 */
	int64_t day_of_era = since_0 % 146097;
	int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 -
			       day_of_era / 146096) / 365;
	int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 -
					    year_of_era / 100);
	int64_t month_from_march = (5 * day_of_year + 2) / 153;
	int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
	const uint16_t fields[8] = {
		(uint16_t)(era * 400 + year_of_era + (month <= 2)),
		(uint16_t)month,
		(uint16_t)((since_0 + 3) % 7),	/* 0: Sunday; 0000-03-01 was a Wednesday */
		(uint16_t)(day_of_year - (153 * month_from_march + 2) / 5 + 1),
		(uint16_t)(ms_of_day / 3600000),
		(uint16_t)(ms_of_day / 60000 % 60),
		(uint16_t)(ms_of_day / 1000 % 60),
		(uint16_t)(ms_of_day % 1000),
	};

	rp_object_stream_put(stream, fields, sizeof(fields));
}

static void put_header_v4(struct rp_object_stream *stream, const struct rp_encoder_info *info)
{
	rp_object_stream_put_u32(stream, strlen(RP_NETTRACE_SERIALIZER));
	rp_object_stream_put(stream, RP_NETTRACE_SERIALIZER, strlen(RP_NETTRACE_SERIALIZER));
	begin_object(stream, "Trace", RP_TRACE_VERSION);
	rp_object_stream_put_utc(stream, info->start_utc_ns);
	rp_object_stream_put_u64(stream, info->start_ns);
	rp_object_stream_put_u64(stream, 1000000000);
	rp_object_stream_put_u32(stream, 8);
	rp_object_stream_put_u32(stream, info->process_id);
	rp_object_stream_put_u32(stream, info->processors);
	rp_object_stream_put_u32(stream, info->sample_interval_ns ? info->sample_interval_ns :
					 1000000);
	rp_object_stream_end_block(stream);
}

static void put_text(struct rp_object_stream *stream, const char *text)
{
	/* All texts here are shorter than 128 bytes, so that their length is one byte. */
	const uint8_t length = (uint8_t)strlen(text);

	rp_object_stream_put(stream, &length, 1);
	rp_object_stream_put(stream, text, length);
}

static void put_key_number(struct rp_object_stream *stream, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	put_text(stream, key);
	put_text(stream, text);
}

static void put_header_v6(struct rp_object_stream *stream, const struct rp_encoder_info *info)
{
	size_t block;
	uint32_t size;

	rp_object_stream_put_u32(stream, 0);
	rp_object_stream_put_u32(stream, RP_NETTRACE_V6);
	rp_object_stream_put_u32(stream, 0);
	rp_object_stream_begin_block(stream, RP_BLOCK_TRACE, 0);
	block = stream->output.size;
	rp_object_stream_put_utc(stream, info->start_utc_ns);
	rp_object_stream_put_u64(stream, info->start_ns);
	rp_object_stream_put_u64(stream, 1000000000);
	rp_object_stream_put_u32(stream, 8);
	rp_object_stream_put_u32(stream, info->sample_interval_ns ? 4 : 3);
	put_key_number(stream, RP_TRACE_KEY_PROCESSORS, info->processors);
	put_key_number(stream, RP_TRACE_KEY_PROCESS, info->process_id);
	put_key_number(stream, RP_TRACE_KEY_PAGE_SIZE, info->page_bytes ? info->page_bytes : 4096);
	if (info->sample_interval_ns)
		put_key_number(stream, RP_TRACE_KEY_SAMPLING, info->sample_interval_ns);
	/* The size is known now; the block's kind is above its 24 bits. */
	size = (uint32_t)(stream->output.size - block);
	memcpy(stream->output.bytes + block - 4, &size, 3);
}

int rp_object_stream_put_header(struct rp_object_stream *stream, const struct rp_encoder_info *info)
{
	int ret = rp_object_stream_reserve(stream, 512);

	if (ret < 0)
		return ret;
	stream->is_v6 = info->version == RP_NETTRACE_V6;
	rp_object_stream_put(stream, RP_NETTRACE_MAGIC, strlen(RP_NETTRACE_MAGIC));
	if (stream->is_v6)
		put_header_v6(stream, info);
	else
		put_header_v4(stream, info);
	return 0;
}
