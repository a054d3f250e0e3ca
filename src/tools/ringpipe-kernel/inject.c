/* SPDX-License-Identifier: MIT */
/*
 * The stream's events are encoded again, one after another, so that kernel events can be inserted
 * between them. An event marked as sorted promises that no earlier event follows it: kernel events
 * with an earlier time are inserted before it. A .NET process marks few events. There, kernel
 * events wait for the next marked event or sequence point and are inserted before it, ordered by
 * time. Readers of such a stream have to sort in any case.
 */
#include "tools/ringpipe-kernel/inject.h"

#include <assert.h>
#include <stdlib.h>

#include "tools/ringpipe-kernel/current.h"
#include "nettrace/convert.h"
#include "nettrace/describe.h"
#include "nettrace/format.h"
#include "nettrace/metadata.h"
#include "nettrace/objects.h"

#define BLOCK_BYTES (64u << 10)		/* a block is closed at this size */
#define BLOCK_MAX (64u << 20)
#define NAME_MAX_BYTES 64u
#define HELD_MAX (1u << 18)		/* 38 MB */

struct held {
	uint64_t time;
	uint64_t thread;
	uint32_t lost;
	uint16_t definition;
	uint16_t processor;
	uint16_t payload_bytes;
	uint8_t payload[RP_KERNEL_INJECT_PAYLOAD_MAX];
};

struct rp_kernel_inject {
	struct rp_plan *plans;
	size_t definition_count;
	struct rp_outbuf metadata;	/* content of a MetadataBlock: the kernel events */

	struct rp_outbuf input;		/* an incomplete object */
	size_t input_at;
	uint64_t input_offset;		/* offset of input_at in the stream */
	bool has_header, ended, raw;

	struct held *held;		/* a queue in order of time */
	size_t held_first, held_count, held_capacity;
	uint32_t sequence;		/* of the capture thread */

	struct rp_object_stream output;
	struct rp_outbuf block;		/* content of the open EventBlock, or empty */
	struct rp_wire_event state;
	uint64_t start, block_first, last;
	struct rp_type_table types;
	struct rp_current current;
};

/* An object of the stream; an empty content marks the stream's end. */
struct stream_object {
	char name[NAME_MAX_BYTES + 1];
	struct rp_cursor content;
};

static int put_object(struct rp_kernel_inject *inject, enum rp_block_kind kind,
		      const void *content, size_t size)
{
	if (rp_object_stream_reserve(&inject->output, size + RP_OBJECT_BYTES) < 0)
		return -ENOMEM;
	rp_object_stream_put_block(&inject->output, kind, content, size);
	return 0;
}

static int close_block(struct rp_kernel_inject *inject)
{
	struct rp_outbuf *block = &inject->block;
	int ret;

	if (!block->size)
		return 0;
	rp_wire_block_header_put(block->bytes, inject->block_first, inject->last);
	ret = put_object(inject, RP_BLOCK_EVENT, block->bytes, block->size);
	block->size = 0;
	return ret;
}

/* The capture thread may change only at a sorted event or the first of a block. */
static int put_event(struct rp_kernel_inject *inject, const struct rp_wire_event *event,
		     const uint8_t *payload)
{
	struct rp_outbuf *block = &inject->block;
	bool changes = event->capture_thread != inject->state.capture_thread;

	if (block->size >= BLOCK_BYTES || (block->size && changes && !event->sorted)) {
		int ret = close_block(inject);

		if (ret < 0)
			return ret;
	}
	if (rp_outbuf_reserve(block, RP_BLOCK_HEADER_BYTES + RP_WIRE_HEADER_MAX +
			      event->payload_bytes) < 0)
		return -ENOMEM;
	if (!block->size) {
		block->size = RP_BLOCK_HEADER_BYTES;
		inject->block_first = event->time;
		memset(&inject->state, 0, sizeof(inject->state));
	}
	block->size += rp_wire_event_put(&inject->state, event, block->bytes + block->size);
	rp_outbuf_put(block, payload, event->payload_bytes);
	inject->last = event->time;
	return 0;
}

static int put_held(struct rp_kernel_inject *inject, const struct held *held)
{
	struct rp_wire_event event = {
		.time = held->time,
		.thread = held->thread,
		.capture_thread = RP_KERNEL_INJECT_THREAD,
		.processor = held->processor,
		.metadata_id = held->definition + 1,
		.sequence = inject->sequence + held->lost + 1,
		.payload_bytes = held->payload_bytes,
		.sorted = true,
	};
	int ret;

	memcpy(event.activity, rp_current_activity(&inject->current, held->thread), 16);
	ret = put_event(inject, &event, held->payload);
	if (!ret)
		inject->sequence = event.sequence;
	return ret;
}

/* Writes the held kernel events up to a time. */
static int put_until(struct rp_kernel_inject *inject, uint64_t time, size_t most)
{
	while (inject->held_count && most--) {
		const struct held *held = &inject->held[inject->held_first];
		int ret;

		if (held->time > time)
			return 0;
		/* Drop events from before the session. */
		ret = held->time < inject->start ? 0 : put_held(inject, held);
		if (ret < 0)
			return ret;
		inject->held_first++;
		inject->held_count--;
	}
	return 0;
}

static int make_space(struct rp_kernel_inject *inject)
{
	size_t capacity = inject->held_capacity ? 2 * inject->held_capacity : 1024;
	struct held *held;

	if (inject->held_first + inject->held_count < inject->held_capacity)
		return 0;
	if (inject->held_first > inject->held_capacity / 2) {
		memmove(inject->held, inject->held + inject->held_first,
			inject->held_count * sizeof(*inject->held));
		inject->held_first = 0;
		return 0;
	}
	held = realloc(inject->held, capacity * sizeof(*held));
	if (!held)
		return -ENOMEM;
	inject->held = held;
	inject->held_capacity = capacity;
	return 0;
}

int rp_kernel_inject_put(struct rp_kernel_inject *inject,
			 const struct rp_kernel_inject_event *event)
{
	const struct rp_plan *plan = &inject->plans[event->definition];
	struct held held = {
		.time = event->time_ns,
		.thread = event->thread,
		.lost = event->lost,
		.definition = (uint16_t)event->definition,
		.processor = event->processor,
	};
	uint8_t payload[8 * RP_KERNEL_INJECT_PAYLOAD_MAX];
	struct held *at;
	size_t size;
	bool cut;
	int ret = make_space(inject);

	if (ret < 0)
		return ret;
	if (rp_plan_bound(plan, event->payload_bytes) > sizeof(payload))
		return -EMSGSIZE;
	size = rp_plan_run(plan, event->payload, event->payload_bytes, payload, &cut);
	if (size > sizeof(held.payload))
		return -EMSGSIZE;
	memcpy(held.payload, payload, size);
	held.payload_bytes = (uint16_t)size;
	/*
	 * Records in the ring are nearly sorted, since processors write almost in order of their
	 * clocks.
	 */
	at = inject->held + inject->held_first + inject->held_count++;
	while (at > inject->held + inject->held_first && at[-1].time > held.time) {
		*at = at[-1];
		at--;
	}
	*at = held;
	return 0;
}

int rp_kernel_inject_relieve(struct rp_kernel_inject *inject, uint64_t time_ns)
{
	if (inject->held_count < HELD_MAX || inject->raw || !inject->has_header)
		return 0;
	return put_until(inject, time_ns, inject->held_count / 2);
}

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
	ret = put_until(inject, time, SIZE_MAX);
	if (!ret)
		ret = close_block(inject);
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
		ret = put_object(inject, RP_BLOCK_METADATA, copy, size);
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
			ret = put_until(inject, event.time, SIZE_MAX);
		moved = event;
		moved.metadata_id += (uint32_t)inject->definition_count;
		moved.payload_bytes = (uint32_t)rp_cursor_left(&payload);
		if (!ret)
			ret = put_event(inject, &moved, payload.at);
		if (!ret)
			ret = rp_current_follow(&inject->current, &event, type->opcode);
	}
	return ret ? ret : close_block(inject);
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
	if (put_object(inject, RP_BLOCK_METADATA, inject->metadata.bytes,
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

static int take_header(struct rp_kernel_inject *inject, struct rp_cursor *c)
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
	if (version != RP_TRACE_VERSION)
		return -EPROTONOSUPPORT;
	if (rp_cursor_take(c, RP_TRACE_BYTES, &trace) < 0 || rp_cursor_take(c, 1, &end) < 0)
		return 0;
	ret = pass_header(inject, (struct rp_cursor){ whole.at, c->at }, trace);
	return ret ? ret : 1;
}

/* Handles the next object of the input. Return: 1; 0 if it is incomplete; negative on error. */
static int step(struct rp_kernel_inject *inject, struct rp_cursor *c)
{
	struct stream_object object;
	int ret;

	if (inject->ended)
		return c->at < c->end ? -EBADMSG : 0;
	if (!inject->has_header)
		return take_header(inject, c);
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
		ret = put_object(inject, RP_BLOCK_STACK, object.content.at,
				 rp_cursor_left(&object.content));
	else
		ret = -EBADMSG;
	return ret < 0 ? ret : 1;
}

/* Copies bytes unchanged, for the rest of a stream that cannot be parsed. */
static int put_raw(struct rp_kernel_inject *inject, const void *bytes, size_t size)
{
	if (rp_object_stream_reserve(&inject->output, size) < 0)
		return -ENOMEM;
	if (size)
		rp_object_stream_put(&inject->output, bytes, size);
	return 0;
}

static int give_up(struct rp_kernel_inject *inject, int error)
{
	if (close_block(inject) < 0 ||
	    put_raw(inject, inject->input.bytes + inject->input_at,
		    inject->input.size - inject->input_at) < 0)
		error = -ENOMEM;
	inject->input.size = inject->input_at = 0;
	inject->raw = true;
	return error;
}

int rp_kernel_inject_feed(struct rp_kernel_inject *inject, const void *bytes, size_t size)
{
	struct rp_outbuf *input = &inject->input;
	int ret;

	if (inject->raw)
		return put_raw(inject, bytes, size);
	rp_outbuf_put(input, bytes, size);
	if (input->failed)
		return -ENOMEM;
	if (!input->size)
		return 0;
	for (;;) {
		struct rp_cursor c = { input->bytes + inject->input_at,
				       input->bytes + input->size };
		const uint8_t *start = c.at;

		ret = step(inject, &c);
		if (ret <= 0)
			break;
		inject->input_at += c.at - start;
		inject->input_offset += c.at - start;
	}
	if (ret < 0)
		return give_up(inject, ret);
	if (inject->input_at < input->size)
		memmove(input->bytes, input->bytes + inject->input_at,
			input->size - inject->input_at);
	input->size -= inject->input_at;
	inject->input_at = 0;
	return 0;
}

int rp_kernel_inject_finish(struct rp_kernel_inject *inject)
{
	const struct rp_cursor none = { NULL, NULL };
	const uint8_t end = RP_TAG_NULL;
	int ret = 0;

	if (inject->raw || !inject->has_header)
		return 0;
	ret = put_until(inject, UINT64_MAX, SIZE_MAX);
	if (!ret)
		ret = close_block(inject);
	if (!ret && inject->ended)
		ret = put_sequence_point(inject, inject->last, 0, none);
	if (!ret && inject->ended)
		ret = put_raw(inject, &end, 1);
	return ret;
}

static int define(struct rp_kernel_inject *inject, size_t index,
		  const struct rp_definition *definition)
{
	/* Metadata blobs have no metadata id and no time of their own. */
	uint8_t header[RP_WIRE_HEADER_MAX];
	struct rp_wire_event state = { 0 }, event = { .sequence = 1, .sorted = true };
	struct rp_outbuf blob = { 0 };
	int ret = rp_plan_make(&inject->plans[index], definition->fields, definition->field_count);

	if (ret < 0)
		return ret;
	rp_metadata_write(&blob, (uint32_t)index + 1, definition);
	event.payload_bytes = (uint32_t)blob.size;
	rp_outbuf_put(&inject->metadata, header, rp_wire_event_put(&state, &event, header));
	rp_outbuf_put(&inject->metadata, blob.bytes, blob.size);
	ret = blob.failed || inject->metadata.failed ? -ENOMEM : 0;
	rp_outbuf_fini(&blob);
	return ret;
}

int rp_kernel_inject_create(const struct rp_definition *definitions, size_t count,
			    struct rp_kernel_inject **ret_kernel_inject)
{
	static const uint8_t header[RP_BLOCK_HEADER_BYTES];
	struct rp_kernel_inject *inject = calloc(1, sizeof(*inject));
	int ret = 0;

	if (!inject)
		return -ENOMEM;
	/* A reader treats number 0 as a thread of unknown state. */
	inject->sequence = 1;
	inject->plans = calloc(count, sizeof(*inject->plans));
	if (!inject->plans)
		ret = -ENOMEM;
	rp_outbuf_put(&inject->metadata, header, sizeof(header));
	while (!ret && inject->definition_count < count) {
		ret = define(inject, inject->definition_count,
			     &definitions[inject->definition_count]);
		inject->definition_count += !ret;
	}
	if (ret < 0) {
		rp_kernel_inject_destroy(inject);
		return ret;
	}
	*ret_kernel_inject = inject;
	return 0;
}

void rp_kernel_inject_destroy(struct rp_kernel_inject *inject)
{
	if (!inject)
		return;
	for (size_t i = 0; i < inject->definition_count; i++)
		rp_plan_fini(&inject->plans[i]);
	free(inject->plans);
	rp_outbuf_fini(&inject->metadata);
	rp_outbuf_fini(&inject->input);
	free(inject->held);
	rp_outbuf_fini(&inject->output.output);
	rp_outbuf_fini(&inject->block);
	rp_type_table_fini(&inject->types);
	rp_current_fini(&inject->current);
	free(inject);
}

const void *rp_kernel_inject_output(struct rp_kernel_inject *inject, size_t *ret_size)
{
	*ret_size = inject->output.output.size - inject->output.head;
	return *ret_size ? inject->output.output.bytes + inject->output.head : NULL;
}

void rp_kernel_inject_consume(struct rp_kernel_inject *inject, size_t size)
{
	assert(size <= inject->output.output.size - inject->output.head);
	inject->output.head += size;
	if (inject->output.head == inject->output.output.size)
		inject->output.head = inject->output.output.size = 0;
}
