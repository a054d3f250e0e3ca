/* SPDX-License-Identifier: MIT */
/* The outer layer of version 4: objects with names, definitions in events. */
#include <stdlib.h>

#include "nettrace/convert.h"
#include "nettrace/describe.h"
#include "tools/ringpipe-kernel/inject_parts.h"

#define BLOCK_MAX (64u << 20)
#define NAME_MAX_BYTES 64u

/* An object of the stream; an empty content marks the stream's end. */
struct stream_object {
	char name[NAME_MAX_BYTES + 1];
	struct rp_cursor content;
};

/* The capture thread's number in a sequence point shows its losses, also after its last event. */
static int put_sequence_point(struct rp_kernel_inject *inject, uint64_t time, uint32_t count,
			      struct rp_cursor threads)
{
	const size_t size = 12 + 12 * (size_t)count + 12;
	struct rp_object_stream *output = &inject->output;

	if (rp_object_stream_reserve(output, size + RP_OBJECT_BYTES) < 0)
		return -ENOMEM;
	rp_object_stream_begin_block(output, RP_BLOCK_SEQUENCE_POINT, (uint32_t)size);
	rp_object_stream_put_u64(output, time);
	rp_object_stream_put_u32(output, count + 1);
	if (count)
		rp_object_stream_put(output, threads.at, 12 * (size_t)count);
	rp_object_stream_put_u64(output, RP_KERNEL_INJECT_THREAD);
	rp_object_stream_put_u32(output, inject->sequence);
	rp_object_stream_end_block(output);
	return 0;
}

static int pass_sequence_point(struct rp_kernel_inject *inject, struct rp_cursor content)
{
	uint64_t time;
	uint32_t count;
	int ret;

	if (rp_cursor_u64(&content, &time) < 0 || rp_cursor_u32(&content, &count) < 0 ||
	    count > rp_cursor_left(&content) / 12)
		return -EBADMSG;
	ret = rp_inject_put_until(inject, time, SIZE_MAX);
	if (!ret)
		ret = rp_inject_close_block(inject);
	return ret ? ret : put_sequence_point(inject, time, count, content);
}

/* Each blob begins with the id, which is changed in a copy of the block. */
static int pass_metadata(struct rp_kernel_inject *inject, struct rp_cursor content)
{
	const uint8_t *start = content.at;
	const size_t size = rp_cursor_left(&content);
	struct rp_wire_event event = { 0 };
	struct rp_wire_layout layout = { .has_labels = false };
	struct rp_cursor blob;
	uint8_t *copy = malloc(size ? size : 1);
	uint32_t id;
	int ret = copy ? rp_wire_block_header(&content, &layout) : -ENOMEM;

	if (copy)
		memcpy(copy, start, size);
	while (!ret && content.at < content.end) {
		ret = rp_wire_event_take(&content, &layout, &event, &blob);
		if (!ret)
			ret = rp_describe(&inject->types, blob);
		if (!ret && rp_cursor_u32(&blob, &id) == 0) {
			id += (uint32_t)inject->definition_count;
			memcpy(copy + (blob.at - start) - sizeof(id), &id, sizeof(id));
		}
	}
	if (!ret)
		ret = rp_inject_put_object(inject, RP_BLOCK_METADATA, copy, size);
	free(copy);
	return ret == -EEXIST ? -EBADMSG : ret;
}

static int pass_events(struct rp_kernel_inject *inject, struct rp_cursor content)
{
	struct rp_wire_layout layout = { .has_labels = false };
	struct rp_wire_event event = { 0 }, moved;
	struct rp_cursor payload;
	int ret = rp_wire_block_header(&content, &layout);

	while (!ret && content.at < content.end) {
		const struct rp_reader_type *type;

		ret = rp_wire_event_take(&content, &layout, &event, &payload);
		if (ret)
			break;
		type = rp_type_table_find(&inject->types, event.metadata_id);
		if (!type)
			return -EBADMSG;
		if (event.sorted)
			ret = rp_inject_put_until(inject, event.time, SIZE_MAX);
		moved = event;
		moved.metadata_id += (uint32_t)inject->definition_count;
		moved.payload_bytes = (uint32_t)rp_cursor_left(&payload);
		if (!ret)
			ret = rp_inject_put_event(inject, &moved, payload.at);
		if (!ret)
			ret = rp_current_follow(&inject->current, &event, type->opcode);
	}
	return ret ? ret : rp_inject_close_block(inject);
}

/*
 * Copies the process's file header and Trace object, then adds the kernel events' definitions,
 * and a time base for them.
 */
static int pass_header(struct rp_kernel_inject *inject, struct rp_cursor head, const uint8_t *trace)
{
	struct rp_object_stream *output = &inject->output;
	const size_t size = rp_cursor_left(&head);
	uint64_t rate;

	memcpy(&inject->start, trace + 16, 8);
	memcpy(&rate, trace + 24, 8);
	if (rate != 1000000000)
		return -EPROTONOSUPPORT;
	if (rp_object_stream_reserve(output, size) < 0)
		return -ENOMEM;
	rp_object_stream_put(output, head.at, size);
	inject->has_header = true;
	inject->last = inject->start;
	rp_wire_block_header_put(inject->metadata.bytes, inject->start, inject->start);
	if (rp_inject_put_object(inject, RP_BLOCK_METADATA, inject->metadata.bytes,
		       inject->metadata.size) < 0)
		return -ENOMEM;
	return put_sequence_point(inject, inject->start, 0, head);
}

/*
 * Parses the beginning of an object, up to its content. Return: 1; 0 if it is incomplete; -EBADMSG.
 */
static int take_name(struct rp_cursor *c, struct stream_object *object, uint32_t *ret_version)
{
	static const uint8_t begin[] = { RP_TAG_BEGIN, RP_TAG_BEGIN, RP_TAG_NULL };
	uint32_t size, least;
	const uint8_t *tags, *name, *end;

	if (rp_cursor_take(c, sizeof(begin), &tags) < 0 || rp_cursor_u32(c, ret_version) < 0 ||
	    rp_cursor_u32(c, &least) < 0 || rp_cursor_u32(c, &size) < 0)
		return 0;
	if (memcmp(tags, begin, sizeof(begin)) || !size || size > NAME_MAX_BYTES)
		return -EBADMSG;
	if (rp_cursor_take(c, size, &name) < 0 || rp_cursor_take(c, 1, &end) < 0)
		return 0;
	memcpy(object->name, name, size);
	object->name[size] = '\0';
	return *end == RP_TAG_END ? 1 : -EBADMSG;
}

/* Return: 1 with an object; 0 if it is incomplete; -EBADMSG. `offset` is that of c->at. */
static int take_object(struct rp_cursor *c, uint64_t offset, struct stream_object *ret_object)
{
	const uint8_t *start = c->at, *padding, *end;
	uint32_t size, version;
	int ret;

	ret_object->content = (struct rp_cursor){ NULL, NULL };
	if (c->at < c->end && *c->at == RP_TAG_NULL) {
		c->at++;
		return 1;
	}
	ret = take_name(c, ret_object, &version);
	if (ret <= 0)
		return ret;
	if (version > RP_BLOCK_VERSION)
		return -EBADMSG;
	if (rp_cursor_u32(c, &size) < 0)
		return 0;
	if (size > BLOCK_MAX)
		return -EBADMSG;
	if (rp_cursor_take(c, -(offset + (c->at - start)) & 3, &padding) < 0 ||
	    rp_cursor_sub(c, size, &ret_object->content) < 0 || rp_cursor_take(c, 1, &end) < 0)
		return 0;
	return *end == RP_TAG_END ? 1 : -EBADMSG;
}

int rp_inject_take_header_v4(struct rp_kernel_inject *inject, struct rp_cursor *c)
{
	const struct rp_cursor whole = *c;
	const uint8_t *magic, *serializer, *trace, *end;
	struct stream_object object;
	uint32_t size, version;
	int ret;

	if (rp_cursor_take(c, 8, &magic) < 0 || rp_cursor_u32(c, &size) < 0)
		return 0;
	if (memcmp(magic, RP_NETTRACE_MAGIC, 8))
		return -EBADMSG;
	if (size != strlen(RP_NETTRACE_SERIALIZER))
		return -EPROTONOSUPPORT;
	if (rp_cursor_take(c, size, &serializer) < 0)
		return 0;
	ret = take_name(c, &object, &version);
	if (ret <= 0)
		return ret;
	if (memcmp(serializer, RP_NETTRACE_SERIALIZER, size) || strcmp(object.name, "Trace"))
		return -EBADMSG;
	if (version < RP_TRACE_VERSION || version > RP_TRACE_VERSION_MAX)
		return -EPROTONOSUPPORT;
	if (rp_cursor_take(c, RP_TRACE_BYTES, &trace) < 0 || rp_cursor_take(c, 1, &end) < 0)
		return 0;
	ret = pass_header(inject, (struct rp_cursor){ whole.at, c->at }, trace);
	return ret ? ret : 1;
}

int rp_inject_put_last_point(struct rp_kernel_inject *inject)
{
	const struct rp_cursor none = { NULL, NULL };
	int ret = put_sequence_point(inject, inject->last, 0, none);

	return ret ? ret : rp_object_stream_put_end(&inject->output);
}

int rp_inject_step_v4(struct rp_kernel_inject *inject, struct rp_cursor *c)
{
	struct stream_object object;
	int ret;

	ret = take_object(c, inject->input_offset, &object);
	if (ret <= 0)
		return ret;
	if (!object.content.at)
		inject->ended = true;
	else if (!strcmp(object.name, "EventBlock"))
		ret = pass_events(inject, object.content);
	else if (!strcmp(object.name, "MetadataBlock"))
		ret = pass_metadata(inject, object.content);
	else if (!strcmp(object.name, "SPBlock"))
		ret = pass_sequence_point(inject, object.content);
	else if (!strcmp(object.name, "StackBlock"))
		ret = rp_inject_put_object(inject, RP_BLOCK_STACK, object.content.at,
				 rp_cursor_left(&object.content));
	else
		ret = -EBADMSG;
	return ret < 0 ? ret : 1;
}

