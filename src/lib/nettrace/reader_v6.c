/* SPDX-License-Identifier: MIT */
/* The outer layer of version 6: blocks one after another. format.h has the layout. */
#include "nettrace/reader_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf.h"

static int take_block_header(struct rp_reader *reader, uint8_t *ret_kind, uint32_t *ret_size)
{
	uint32_t word = 0;
	int ret = rp_reader_take_u32(reader, &word);

	*ret_kind = (uint8_t)(word >> 24);
	*ret_size = word & RP_BLOCK_SIZE_MAX;
	return ret;
}

static int damaged(struct rp_reader *reader, uint64_t offset, const char *what)
{
	return rp_reader_fail(reader, -EBADMSG, offset, "a damaged %s", what);
}

/* Report that a declaration of the stream cannot be stored. */
static int refuse(struct rp_reader *reader, int error, uint64_t offset, const char *what)
{
	if (error == -ENOMEM)
		return rp_reader_fail(reader, error, offset, "no memory for a %s", what);
	if (error == -E2BIG)
		return rp_reader_fail(reader, -EBADMSG, offset, "too much in a %s", what);
	if (error == -EEXIST)
		return rp_reader_fail(reader, -EBADMSG, offset, "an id defined twice in a %s",
				      what);
	return damaged(reader, offset, what);
}

static int take_text(struct rp_reader *reader, struct rp_cursor *c, const char **ret_text)
{
	const uint8_t *bytes;
	uint32_t size;
	char *text;

	if (rp_cursor_varint32(c, &size) < 0 || rp_cursor_take(c, size, &bytes) < 0)
		return -EBADMSG;
	text = rp_type_table_alloc(&reader->types, 3 * (size_t)size + 1);
	if (!text)
		return -ENOMEM;
	(void)rp_utf8_repair(bytes, size, text);
	*ret_text = text;
	return 0;
}

/* The keys whose values are members of the Trace object in version 4. */
static void note_key_value(struct rp_reader_info *info, const struct rp_key_value *pair)
{
	uint32_t number = (uint32_t)strtoul(pair->value, NULL, 10);

	if (!strcmp(pair->key, RP_TRACE_KEY_PROCESSORS))
		info->processors = number;
	else if (!strcmp(pair->key, RP_TRACE_KEY_PROCESS))
		info->process_id = number;
}

static int take_key_values(struct rp_reader *reader, struct rp_cursor *block)
{
	struct rp_key_value pair;
	uint32_t count;
	int ret = rp_cursor_u32(block, &count);

	while (ret == 0 && count--) {
		ret = take_text(reader, block, &pair.key);
		if (ret == 0)
			ret = take_text(reader, block, &pair.value);
		if (ret < 0)
			break;
		rp_outbuf_put(&reader->key_values, &pair, sizeof(pair));
		if (reader->key_values.failed)
			return -ENOMEM;
		reader->info.key_value_count++;
		note_key_value(&reader->info, &pair);
	}
	return ret;
}

static int take_trace(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	struct rp_reader_info *info = &reader->info;
	const uint8_t *utc;
	int ret;

	if (rp_cursor_take(&block, 16, &utc) < 0 ||
	    rp_cursor_u64(&block, &info->start_ticks) < 0 ||
	    rp_cursor_u64(&block, &info->ticks_per_second) < 0 ||
	    rp_cursor_u32(&block, &info->pointer_bytes) < 0)
		return damaged(reader, offset, "Trace block");
	info->start_utc_ns = rp_reader_utc_ns(utc);
	ret = take_key_values(reader, &block);
	return ret < 0 ? refuse(reader, ret, offset, "Trace block") : rp_reader_check_info(reader);
}

int rp_reader_take_header_v6(struct rp_reader *reader)
{
	const uint64_t version_at = reader->source.offset;
	struct rp_cursor block;
	uint32_t major = 0, size = 0;
	uint8_t kind = RP_BLOCK_END;
	int ret = rp_reader_take_u32(reader, &major);

	if (ret == 0 && major > RP_NETTRACE_V6)
		return rp_reader_fail(reader, -EPROTONOSUPPORT, version_at, "nettrace version %u, "
				      "while versions 4 to 6 alone can be read,", major);
	if (ret == 0 && major < RP_NETTRACE_V6)
		return rp_reader_fail(reader, -EPROTONOSUPPORT, version_at,
				      "version %u in a file header of version 6 or later,", major);
	if (ret == 0)
		ret = rp_reader_take_u32(reader, &reader->minor_version);
	if (ret == 0)
		ret = take_block_header(reader, &kind, &size);
	if (ret == 0 && kind != RP_BLOCK_TRACE)
		return rp_reader_fail(reader, -EBADMSG, reader->source.offset - 4,
				      "a block of kind %u instead of Trace", kind);
	if (ret == 0)
		ret = rp_reader_take_content(reader, size, false, &block);
	if (ret < 0)
		return ret;
	reader->info.version = RP_NETTRACE_V6;
	reader->layout.has_labels = true;
	return take_trace(reader, block, reader->source.offset - size);
}

static int take_metadata(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	const uint8_t *start = block.at, *skipped;
	struct rp_cursor row;
	uint16_t size;
	int ret;

	if (rp_cursor_u16(&block, &size) < 0 || rp_cursor_take(&block, size, &skipped) < 0)
		return damaged(reader, offset, "Metadata block");
	while (block.at < block.end) {
		const uint64_t at = offset + (uint64_t)(block.at - start);

		if (rp_cursor_u16(&block, &size) < 0 || rp_cursor_sub(&block, size, &row) < 0)
			return damaged(reader, at, "Metadata block");
		ret = rp_describe_row(&reader->types, row);
		if (ret < 0)
			return refuse(reader, ret, at, "Metadata block");
	}
	return 0;
}

static int take_threads(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	const uint8_t *start = block.at;
	struct rp_cursor row;
	uint16_t size;
	int ret;

	while (block.at < block.end) {
		const uint64_t at = offset + (uint64_t)(block.at - start);

		if (rp_cursor_u16(&block, &size) < 0 || rp_cursor_sub(&block, size, &row) < 0)
			return damaged(reader, at, "Thread block");
		ret = rp_thread_rows_add(&reader->thread_rows, row);
		if (ret < 0)
			return refuse(reader, ret, at, "Thread block");
	}
	return 0;
}

/*
 * Handle a thread's last number, in a sequence point or a removal. Missing events were lost. The
 * row is NULL if damage explains that the thread is unknown.
 */
static int take_last_number(struct rp_reader *reader, struct rp_cursor *block,
			    struct rp_thread_row **ret_row)
{
	uint64_t index;
	uint32_t sequence;

	if (rp_cursor_varint(block, &index) < 0 || rp_cursor_varint32(block, &sequence) < 0)
		return -EBADMSG;
	*ret_row = rp_thread_rows_find(&reader->thread_rows, index);
	if (!*ret_row)
		return reader->resume.missed_declarations ? 0 : -EBADMSG;
	/* A row that may have been removed keeps its number, which shows whether it was. */
	if ((*ret_row)->declared < reader->resume.suspect_gap)
		return 0;
	rp_reader_count_missing(reader, (*ret_row)->sequence, sequence,
				(*ret_row)->gap == reader->gap);
	(*ret_row)->sequence = sequence;
	(*ret_row)->gap = reader->gap;
	return 0;
}

static int remove_threads(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	struct rp_thread_row *row;

	while (block.at < block.end) {
		if (take_last_number(reader, &block, &row) < 0)
			return damaged(reader, offset, "RemoveThread block");
		if (row)
			rp_thread_rows_remove(&reader->thread_rows, row);
	}
	return 0;
}

static int take_sequence_point(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	struct rp_thread_row *row;
	uint32_t flags, count;
	uint64_t time;

	if (rp_cursor_u64(&block, &time) < 0 || rp_cursor_u32(&block, &flags) < 0 ||
	    rp_cursor_u32(&block, &count) < 0)
		return damaged(reader, offset, "SequencePoint block");
	while (count--)
		if (take_last_number(reader, &block, &row) < 0)
			return damaged(reader, offset, "SequencePoint block");
	if (flags & RP_POINT_FLUSH_THREADS)
		rp_thread_rows_clear(&reader->thread_rows);
	if (flags & RP_POINT_FLUSH_METADATA)
		rp_type_table_clear(&reader->types);
	rp_reader_note_flush(reader, flags);
	reader->block.flags = flags;
	reader->point_time = time;
	rp_point_index_clear(&reader->frames);
	rp_label_lists_clear(&reader->labels);
	reader->stats.sequence_points++;
	return 0;
}

static int take_labels(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	int ret = rp_label_lists_add(&reader->labels, block);

	return ret < 0 ? refuse(reader, ret, offset, "LabelList block") : 0;
}

int rp_reader_take_block_v6(struct rp_reader *reader)
{
	struct rp_cursor block;
	uint64_t offset;
	uint32_t size;
	uint8_t kind;
	int ret = take_block_header(reader, &kind, &size);

	if (ret == 0)
		ret = rp_reader_take_content(reader, size, kind == RP_BLOCK_EVENT, &block);
	if (ret < 0)
		return ret;
	offset = reader->source.offset - rp_cursor_left(&block);
	reader->block.kind = (enum rp_block_kind)kind;
	switch (kind) {
	case RP_BLOCK_END:
		return 0;
	case RP_BLOCK_TRACE:
		return rp_reader_fail(reader, -EBADMSG, offset, "a second Trace block");
	case RP_BLOCK_EVENT:
		ret = rp_reader_begin_events(reader, block, offset);
		break;
	case RP_BLOCK_METADATA:
		ret = take_metadata(reader, block, offset);
		break;
	case RP_BLOCK_SEQUENCE_POINT:
		ret = take_sequence_point(reader, block, offset);
		break;
	case RP_BLOCK_STACK:
		ret = rp_reader_take_stacks(reader, block, offset);
		break;
	case RP_BLOCK_THREAD:
		ret = take_threads(reader, block, offset);
		break;
	case RP_BLOCK_REMOVE_THREAD:
		ret = remove_threads(reader, block, offset);
		break;
	case RP_BLOCK_LABEL_LIST:
		ret = take_labels(reader, block, offset);
		break;
	}
	/* Skip blocks of other kinds, which belong to later minor versions. */
	return ret < 0 ? ret : 1;
}
