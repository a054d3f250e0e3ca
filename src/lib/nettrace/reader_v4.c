/* SPDX-License-Identifier: MIT */
/* The outer layer of versions 4 and 5: objects one after another. */
#include "nettrace/reader_parts.h"

#include <string.h>

/* Larger blocks are refused: the .NET runtime's have 100 KB, ours less. */
#define BLOCK_MAX (64u << 20)
#define NAME_BYTES_MAX 64u

struct trace_object {
	char name[NAME_BYTES_MAX + 1];
	uint32_t version, min_reader;
	uint64_t version_at;
};

/* Check the tag that was taken last. */
static int check_tag(struct rp_reader *reader, uint8_t tag, uint8_t expected)
{
	return tag == expected ? 0 :
	       rp_reader_fail(reader, -EBADMSG, reader->source.offset - 1, "tag %u instead of %u",
			      tag, expected);
}

static int take_tag(struct rp_reader *reader, uint8_t expected)
{
	const uint8_t *tag;
	int ret = rp_reader_take(reader, 1, &tag);

	return ret < 0 ? ret : check_tag(reader, *tag, expected);
}

/* Return: 1 with an object whose content is next; 0 at the end of the stream; negative. */
static int begin_object(struct rp_reader *reader, struct trace_object *object)
{
	const uint8_t *bytes;
	uint32_t size = 0;
	int ret;

	ret = rp_reader_take(reader, 1, &bytes);
	if (ret < 0)
		return ret;
	if (*bytes == RP_TAG_NULL)
		return 0;
	if (*bytes != RP_TAG_BEGIN)
		return rp_reader_fail(reader, -EBADMSG, reader->source.offset - 1,
				      "no object but tag %u",     *bytes);
	if ((ret = take_tag(reader, RP_TAG_BEGIN)) < 0 ||
	    (ret = take_tag(reader, RP_TAG_NULL)) < 0)
		return ret;
	object->version_at = reader->source.offset;
	if ((ret = rp_reader_take_u32(reader, &object->version)) < 0 ||
	    (ret = rp_reader_take_u32(reader, &object->min_reader)) < 0 ||
	    (ret = rp_reader_take_u32(reader, &size)) < 0)
		return ret;
	if (!size || size > NAME_BYTES_MAX)
		return rp_reader_fail(reader, -EBADMSG, reader->source.offset - 4,
			    "an object's name has %u bytes", size);
	ret = rp_reader_take(reader, size, &bytes);
	if (ret < 0)
		return ret;
	memcpy(object->name, bytes, size);
	object->name[size] = 0;
	ret = take_tag(reader, RP_TAG_END);
	return ret < 0 ? ret : 1;
}

/* Refuse an object that is of another version than these, or that only later readers can read. */
static int check_version(struct rp_reader *reader, const struct trace_object *object,
			 const char *what, uint32_t least, uint32_t most)
{
	if (object->version < least || object->version > most)
		return rp_reader_fail(reader, -EPROTONOSUPPORT, object->version_at,
				      "%s of version %u, while versions %u to %u can be read,",
				      what, object->version, least, most);
	if (object->min_reader > most)
		return rp_reader_fail(reader, -EPROTONOSUPPORT, object->version_at + 4,
				      "%s that needs a reader of version %u, while this one has "
				      "version %u,", what, object->min_reader, most);
	return 0;
}

static int take_trace(struct rp_reader *reader)
{
	struct rp_reader_info *info = &reader->info;
	const uint8_t *bytes;
	int ret = rp_reader_take(reader, RP_TRACE_BYTES, &bytes);

	if (ret < 0)
		return ret;
	info->start_utc_ns = rp_reader_utc_ns(bytes);
	memcpy(&info->start_ticks, bytes + 16, 8);
	memcpy(&info->ticks_per_second, bytes + 24, 8);
	memcpy(&info->pointer_bytes, bytes + 32, 4);
	memcpy(&info->process_id, bytes + 36, 4);
	memcpy(&info->processors, bytes + 40, 4);
	memcpy(&reader->sample_interval_ns, bytes + 44, 4);
	info->version = RP_TRACE_VERSION;
	ret = rp_reader_check_info(reader);
	return ret < 0 ? ret : take_tag(reader, RP_TAG_END);
}

int rp_reader_take_header_v4(struct rp_reader *reader, uint32_t name_bytes)
{
	struct trace_object object;
	const uint8_t *bytes;
	int ret;

	if (name_bytes != strlen(RP_NETTRACE_SERIALIZER))
		return -EBADMSG;
	ret = rp_reader_take(reader, name_bytes, &bytes);
	if (ret < 0)
		return ret;
	if (memcmp(bytes, RP_NETTRACE_SERIALIZER, name_bytes))
		return -EBADMSG;
	ret = begin_object(reader, &object);
	if (ret <= 0)
		return ret < 0 ? ret : -EBADMSG;
	if (strcmp(object.name, "Trace"))
		return -EBADMSG;
	ret = check_version(reader, &object, "a Trace object", RP_TRACE_VERSION,
			    RP_TRACE_VERSION_MAX);
	return ret < 0 ? ret : take_trace(reader);
}

static int take_sequence_point(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	struct rp_thread_slot *slot;
	const uint32_t gap = reader->gap & RP_READER_GAP_MASK;
	uint32_t count, sequence;
	uint64_t time, thread;
	size_t known;

	if (rp_cursor_u64(&block, &time) < 0 || rp_cursor_u32(&block, &count) < 0 ||
	    count > rp_cursor_left(&block) / 12)
		return rp_reader_fail(reader, -EBADMSG, offset, "a damaged sequence point");
	while (count--) {
		if (rp_cursor_u64(&block, &thread) < 0 || rp_cursor_u32(&block, &sequence) < 0)
			return rp_reader_fail(reader, -EBADMSG, offset, "a damaged sequence point");
		known = reader->threads.count;
		if (rp_thread_table_add(&reader->threads, thread, &slot) < 0)
			return rp_reader_fail(reader, -ENOMEM, offset, "no memory for threads");
		if (reader->threads.count == known && slot->sequence && sequence)
			rp_reader_count_missing(reader, slot->sequence, sequence,
						slot->index == gap);
		slot->sequence = sequence;
		slot->index = gap;
	}
	rp_point_index_clear(&reader->frames);
	rp_reader_note_flush(reader, 0);
	reader->stats.sequence_points++;
	return 0;
}

static int take_metadata(struct rp_reader *reader, struct rp_cursor block, uint64_t offset)
{
	struct rp_wire_layout layout = { .has_labels = false };
	struct rp_wire_event event = { 0 };
	const uint8_t *start = block.at;
	struct rp_cursor blob;
	int ret;

	if (rp_wire_block_header(&block, &layout) < 0)
		return rp_reader_fail(reader, -EBADMSG, offset, "a damaged metadata block");
	while (block.at < block.end) {
		uint64_t at = offset + (block.at - start);

		if (rp_wire_event_take(&block, &layout, &event, &blob) < 0)
			return rp_reader_fail(reader, -EBADMSG, at, "a damaged metadata event");
		ret = rp_describe(&reader->types, blob);
		if (ret == -ENOMEM)
			return rp_reader_fail(reader, ret, at, "no memory for definitions");
		if (ret < 0)
			return rp_reader_fail(reader, -EBADMSG, at, ret == -EEXIST ?
				    "an event defined twice" : "a damaged event definition");
	}
	return 0;
}

/*
 * Take a block's size and content. A block of events may be cut, so its end tag is taken later. Any
 * other block is taken completely, with its end tag, because its content must not be
 * read twice.
 */
static int take_content(struct rp_reader *reader, bool has_events, struct rp_cursor *ret_block)
{
	const uint8_t *padding;
	uint32_t size = 0;
	int ret = rp_reader_take_u32(reader, &size);

	if (ret == 0 && size > BLOCK_MAX)
		return rp_reader_fail(reader, -EBADMSG, reader->source.offset - 4,
				      "a block of %u bytes", size);
	if (ret == 0)
		ret = rp_reader_take(reader, -(reader->source.offset + reader->resume.shift) & 3,
				     &padding);
	if (ret == 0)
		ret = rp_reader_take_content(reader, size + !has_events, has_events, ret_block);
	if (ret < 0 || has_events)
		return ret;
	return check_tag(reader, *--ret_block->end, RP_TAG_END);
}

int rp_reader_take_object_v4(struct rp_reader *reader)
{
	struct rp_cursor block;
	struct trace_object object;
	uint64_t offset;
	bool events;
	int ret = begin_object(reader, &object);

	if (ret <= 0)
		return ret;
	ret = check_version(reader, &object, "a block", 0, RP_BLOCK_VERSION);
	if (ret < 0)
		return ret;
	events = !strcmp(object.name, "EventBlock");
	ret = take_content(reader, events, &block);
	if (ret < 0)
		return ret;
	offset = reader->source.offset - !events - (uint64_t)(block.end - block.at);
	reader->block.kind = rp_block_kind_of((const uint8_t *)object.name, strlen(object.name));
	if (events)
		ret = rp_reader_begin_events(reader, block, offset);
	else if (!strcmp(object.name, "MetadataBlock"))
		ret = take_metadata(reader, block, offset);
	else if (!strcmp(object.name, "StackBlock"))
		ret = rp_reader_take_stacks(reader, block, offset);
	else if (!strcmp(object.name, "SPBlock"))
		ret = take_sequence_point(reader, block, offset);
	else
		ret = rp_reader_fail(reader, -EBADMSG, offset, "an object of unknown type");
	return ret < 0 ? ret : 1;
}

int rp_reader_end_events_v4(struct rp_reader *reader)
{
	return take_tag(reader, RP_TAG_END);
}
