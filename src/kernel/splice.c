/* SPDX-License-Identifier: MIT */
/*
 * Events in the stream are written anew, one after another, so that ours can stand between them.
 * Where the process sorts (an event marked as sorted says that no earlier one will come), ours go
 * in at their time; where it does not, as .NET's, they come sorted among themselves before the next
 * event or sequence point that does, and readers have to sort in any case.
 */
#include "kernel/splice.h"

#include <assert.h>
#include <stdlib.h>

#include "kernel/current.h"
#include "nettrace/convert.h"
#include "nettrace/describe.h"
#include "nettrace/format.h"
#include "nettrace/metadata.h"
#include "nettrace/objects.h"

#define BLOCK_BYTES (64u << 10)		/* a block is closed when it has so many */
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
	uint8_t payload[RP_SPLICE_PAYLOAD_MAX];
};

struct rp_splice {
	struct rp_plan *plans;
	size_t definition_count;
	struct rp_outbuf metadata;	/* content of a MetadataBlock: our definitions */

	struct rp_outbuf input;		/* not yet a whole object */
	size_t input_at;
	uint64_t input_offset;		/* in the stream, of input_at */
	bool has_head, ended, raw;

	struct held *held;		/* a queue, in the order of time */
	size_t held_first, held_count, held_capacity;
	uint32_t sequence;		/* of our thread */

	struct rp_object_stream output;
	struct rp_outbuf block;		/* content of the open EventBlock, or empty */
	struct rp_wire_event state;
	uint64_t start, block_first, last;
	struct rp_type_table types;
	struct rp_current current;
};

/* An object of the stream; content is empty for its end. */
struct object {
	char name[NAME_MAX_BYTES + 1];
	struct rp_cursor content;
};

static int put_object(struct rp_splice *splice, const char *name, const void *content, size_t size)
{
	if (rp_object_stream_reserve(&splice->output, size + RP_OBJECT_BYTES) < 0)
		return -ENOMEM;
	rp_object_stream_put_block(&splice->output, name, content, size);
	return 0;
}

static int close_block(struct rp_splice *splice)
{
	struct rp_outbuf *block = &splice->block;
	int ret;

	if (!block->size)
		return 0;
	rp_wire_block_header_put(block->bytes, splice->block_first, splice->last);
	ret = put_object(splice, "EventBlock", block->bytes, block->size);
	block->size = 0;
	return ret;
}

/* The capture thread may change only at a sorted event or the first of a block. */
static int put_event(struct rp_splice *splice, const struct rp_wire_event *event,
		     const uint8_t *payload)
{
	struct rp_outbuf *block = &splice->block;
	bool changes = event->capture_thread != splice->state.capture_thread;

	if (block->size >= BLOCK_BYTES || (block->size && changes && !event->sorted)) {
		int ret = close_block(splice);

		if (ret < 0)
			return ret;
	}
	if (rp_outbuf_reserve(block, RP_BLOCK_HEADER_BYTES + RP_WIRE_HEADER_MAX +
			      event->payload_bytes) < 0)
		return -ENOMEM;
	if (!block->size) {
		block->size = RP_BLOCK_HEADER_BYTES;
		splice->block_first = event->time;
		memset(&splice->state, 0, sizeof(splice->state));
	}
	block->size += rp_wire_event_put(&splice->state, event, block->bytes + block->size);
	rp_outbuf_put(block, payload, event->payload_bytes);
	splice->last = event->time;
	return 0;
}

static int put_held(struct rp_splice *splice, const struct held *held)
{
	struct rp_wire_event event = {
		.time = held->time,
		.thread = held->thread,
		.capture_thread = RP_SPLICE_THREAD,
		.processor = held->processor,
		.metadata_id = held->definition + 1,
		.sequence = splice->sequence + held->lost + 1,
		.payload_bytes = held->payload_bytes,
		.sorted = true,
	};
	int ret;

	memcpy(event.activity, rp_current_activity(&splice->current, held->thread), 16);
	ret = put_event(splice, &event, held->payload);
	if (!ret)
		splice->sequence = event.sequence;
	return ret;
}

/* Ours up to a time. */
static int put_until(struct rp_splice *splice, uint64_t time, size_t most)
{
	while (splice->held_count && most--) {
		const struct held *held = &splice->held[splice->held_first];
		int ret;

		if (held->time > time)
			return 0;
		/* What was before the session is no part of it. */
		ret = held->time < splice->start ? 0 : put_held(splice, held);
		if (ret < 0)
			return ret;
		splice->held_first++;
		splice->held_count--;
	}
	return 0;
}

static int make_room(struct rp_splice *splice)
{
	size_t capacity = splice->held_capacity ? 2 * splice->held_capacity : 1024;
	struct held *held;

	if (splice->held_first + splice->held_count < splice->held_capacity)
		return 0;
	if (splice->held_first > splice->held_capacity / 2) {
		memmove(splice->held, splice->held + splice->held_first,
			splice->held_count * sizeof(*splice->held));
		splice->held_first = 0;
		return 0;
	}
	held = realloc(splice->held, capacity * sizeof(*held));
	if (!held)
		return -ENOMEM;
	splice->held = held;
	splice->held_capacity = capacity;
	return 0;
}

int rp_splice_put(struct rp_splice *splice, const struct rp_splice_event *event)
{
	const struct rp_plan *plan = &splice->plans[event->definition];
	struct held held = {
		.time = event->time_ns,
		.thread = event->thread,
		.lost = event->lost,
		.definition = (uint16_t)event->definition,
		.processor = event->processor,
	};
	uint8_t payload[8 * RP_SPLICE_PAYLOAD_MAX];
	struct held *at;
	size_t size;
	bool cut;
	int ret = make_room(splice);

	if (ret < 0)
		return ret;
	if (rp_plan_bound(plan, event->payload_bytes) > sizeof(payload))
		return -EMSGSIZE;
	size = rp_plan_run(plan, event->payload, event->payload_bytes, payload, &cut);
	if (size > sizeof(held.payload))
		return -EMSGSIZE;
	memcpy(held.payload, payload, size);
	held.payload_bytes = (uint16_t)size;
	/* Processors reach the ring in nearly the order of their clocks. */
	at = splice->held + splice->held_first + splice->held_count++;
	while (at > splice->held + splice->held_first && at[-1].time > held.time) {
		*at = at[-1];
		at--;
	}
	*at = held;
	return 0;
}

int rp_splice_relieve(struct rp_splice *splice, uint64_t time_ns)
{
	if (splice->held_count < HELD_MAX || splice->raw || !splice->has_head)
		return 0;
	return put_until(splice, time_ns, splice->held_count / 2);
}

/* The number in a sequence point says how many of ours were lost, also after the last one. */
static int put_sequence_point(struct rp_splice *splice, uint64_t time, uint32_t count,
			      struct rp_cursor threads)
{
	const size_t size = 12 + 12 * (size_t)count + 12;
	struct rp_object_stream *output = &splice->output;

	if (rp_object_stream_reserve(output, size + RP_OBJECT_BYTES) < 0)
		return -ENOMEM;
	rp_object_stream_begin_block(output, "SPBlock", (uint32_t)size);
	rp_object_stream_put_u64(output, time);
	rp_object_stream_put_u32(output, count + 1);
	if (count)
		rp_object_stream_put(output, threads.at, 12 * (size_t)count);
	rp_object_stream_put_u64(output, RP_SPLICE_THREAD);
	rp_object_stream_put_u32(output, splice->sequence);
	rp_object_stream_end_block(output);
	return 0;
}

static int pass_sequence_point(struct rp_splice *splice, struct rp_cursor content)
{
	uint64_t time;
	uint32_t count;
	int ret;

	if (rp_cursor_u64(&content, &time) < 0 || rp_cursor_u32(&content, &count) < 0 ||
	    count > rp_cursor_left(&content) / 12)
		return -EBADMSG;
	ret = put_until(splice, time, SIZE_MAX);
	if (!ret)
		ret = close_block(splice);
	return ret ? ret : put_sequence_point(splice, time, count, content);
}

/* The id is the blob's beginning: it is changed in a copy of the block. */
static int pass_metadata(struct rp_splice *splice, struct rp_cursor content)
{
	const uint8_t *start = content.at;
	const size_t size = rp_cursor_left(&content);
	struct rp_wire_event event = { 0 };
	struct rp_cursor blob;
	uint8_t *copy = malloc(size ? size : 1);
	bool compressed;
	uint32_t id;
	int ret = copy ? rp_wire_block_header(&content, &compressed) : -ENOMEM;

	if (copy)
		memcpy(copy, start, size);
	while (!ret && content.at < content.end) {
		ret = rp_wire_event_take(&content, start, compressed, &event, &blob);
		if (!ret)
			ret = rp_type_table_add(&splice->types, blob);
		if (!ret && rp_cursor_u32(&blob, &id) == 0) {
			id += (uint32_t)splice->definition_count;
			memcpy(copy + (blob.at - start) - sizeof(id), &id, sizeof(id));
		}
	}
	if (!ret)
		ret = put_object(splice, "MetadataBlock", copy, size);
	free(copy);
	return ret == -EEXIST ? -EBADMSG : ret;
}

static int pass_events(struct rp_splice *splice, struct rp_cursor content)
{
	const uint8_t *start = content.at;
	struct rp_wire_event event = { 0 }, moved;
	struct rp_cursor payload;
	bool compressed;
	int ret = rp_wire_block_header(&content, &compressed);

	while (!ret && content.at < content.end) {
		const struct rp_reader_type *type;

		ret = rp_wire_event_take(&content, start, compressed, &event, &payload);
		if (ret)
			break;
		type = rp_type_table_find(&splice->types, event.metadata_id);
		if (!type)
			return -EBADMSG;
		if (event.sorted)
			ret = put_until(splice, event.time, SIZE_MAX);
		moved = event;
		moved.metadata_id += (uint32_t)splice->definition_count;
		moved.payload_bytes = (uint32_t)rp_cursor_left(&payload);
		if (!ret)
			ret = put_event(splice, &moved, payload.at);
		if (!ret)
			ret = rp_current_follow(&splice->current, &event, type->opcode);
	}
	return ret ? ret : close_block(splice);
}

/* The process's file header and Trace object as they are, then our definitions and our base. */
static int pass_head(struct rp_splice *splice, struct rp_cursor head, const uint8_t *trace)
{
	struct rp_object_stream *output = &splice->output;
	const size_t size = rp_cursor_left(&head);
	uint64_t rate;

	memcpy(&splice->start, trace + 16, 8);
	memcpy(&rate, trace + 24, 8);
	if (rate != 1000000000)
		return -EPROTONOSUPPORT;
	if (rp_object_stream_reserve(output, size) < 0)
		return -ENOMEM;
	rp_object_stream_put(output, head.at, size);
	splice->has_head = true;
	splice->last = splice->start;
	rp_wire_block_header_put(splice->metadata.bytes, splice->start, splice->start);
	if (put_object(splice, "MetadataBlock", splice->metadata.bytes, splice->metadata.size) < 0)
		return -ENOMEM;
	return put_sequence_point(splice, splice->start, 0, head);
}

/*
 * The beginning of an object, up to its content. Return: 1; 0: not all of it is here; -EBADMSG.
 */
static int take_name(struct rp_cursor *c, struct object *object, uint32_t *ret_version)
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

/* Return: 1 with an object; 0: not all of it is here; -EBADMSG. `offset` is that of c->at. */
static int take_object(struct rp_cursor *c, uint64_t offset, struct object *ret_object)
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

static int take_head(struct rp_splice *splice, struct rp_cursor *c)
{
	const struct rp_cursor whole = *c;
	const uint8_t *magic, *serializer, *trace, *end;
	struct object object;
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
	ret = pass_head(splice, (struct rp_cursor){ whole.at, c->at }, trace);
	return ret ? ret : 1;
}

/* What is next in the input. Return: 1; 0: not all of it is here; negative. */
static int step(struct rp_splice *splice, struct rp_cursor *c)
{
	struct object object;
	int ret;

	if (splice->ended)
		return c->at < c->end ? -EBADMSG : 0;
	if (!splice->has_head)
		return take_head(splice, c);
	ret = take_object(c, splice->input_offset, &object);
	if (ret <= 0)
		return ret;
	if (!object.content.at)
		splice->ended = true;
	else if (!strcmp(object.name, "EventBlock"))
		ret = pass_events(splice, object.content);
	else if (!strcmp(object.name, "MetadataBlock"))
		ret = pass_metadata(splice, object.content);
	else if (!strcmp(object.name, "SPBlock"))
		ret = pass_sequence_point(splice, object.content);
	else
		ret = put_object(splice, object.name, object.content.at,
				 rp_cursor_left(&object.content));
	return ret < 0 ? ret : 1;
}

/* The rest goes as it is. */
static int put_raw(struct rp_splice *splice, const void *bytes, size_t size)
{
	if (rp_object_stream_reserve(&splice->output, size) < 0)
		return -ENOMEM;
	if (size)
		rp_object_stream_put(&splice->output, bytes, size);
	return 0;
}

static int give_up(struct rp_splice *splice, int error)
{
	if (close_block(splice) < 0 ||
	    put_raw(splice, splice->input.bytes + splice->input_at,
		    splice->input.size - splice->input_at) < 0)
		error = -ENOMEM;
	splice->input.size = splice->input_at = 0;
	splice->raw = true;
	return error;
}

int rp_splice_feed(struct rp_splice *splice, const void *bytes, size_t size)
{
	struct rp_outbuf *input = &splice->input;
	int ret;

	if (splice->raw)
		return put_raw(splice, bytes, size);
	rp_outbuf_put(input, bytes, size);
	if (input->failed)
		return -ENOMEM;
	if (!input->size)
		return 0;
	for (;;) {
		struct rp_cursor c = { input->bytes + splice->input_at,
				       input->bytes + input->size };
		const uint8_t *start = c.at;

		ret = step(splice, &c);
		if (ret <= 0)
			break;
		splice->input_at += c.at - start;
		splice->input_offset += c.at - start;
	}
	if (ret < 0)
		return give_up(splice, ret);
	if (splice->input_at < input->size)
		memmove(input->bytes, input->bytes + splice->input_at,
			input->size - splice->input_at);
	input->size -= splice->input_at;
	splice->input_at = 0;
	return 0;
}

int rp_splice_finish(struct rp_splice *splice)
{
	const struct rp_cursor none = { NULL, NULL };
	const uint8_t end = RP_TAG_NULL;
	int ret = 0;

	if (splice->raw || !splice->has_head)
		return 0;
	ret = put_until(splice, UINT64_MAX, SIZE_MAX);
	if (!ret)
		ret = close_block(splice);
	if (!ret && splice->ended)
		ret = put_sequence_point(splice, splice->last, 0, none);
	if (!ret && splice->ended)
		ret = put_raw(splice, &end, 1);
	return ret;
}

static int define(struct rp_splice *splice, size_t index,
		  const struct rp_encoder_definition *definition)
{
	/* A blob without an id of metadata, one after another at the block's own time. */
	uint8_t header[RP_WIRE_HEADER_MAX];
	struct rp_wire_event state = { 0 }, event = { .sequence = 1, .sorted = true };
	struct rp_outbuf blob = { 0 };
	int ret = rp_plan_make(&splice->plans[index], definition->fields, definition->field_count);

	if (ret < 0)
		return ret;
	rp_metadata_write(&blob, (uint32_t)index + 1, definition);
	event.payload_bytes = (uint32_t)blob.size;
	rp_outbuf_put(&splice->metadata, header, rp_wire_event_put(&state, &event, header));
	rp_outbuf_put(&splice->metadata, blob.bytes, blob.size);
	ret = blob.failed || splice->metadata.failed ? -ENOMEM : 0;
	rp_outbuf_fini(&blob);
	return ret;
}

int rp_splice_create(const struct rp_encoder_definition *definitions, size_t count,
		     struct rp_splice **ret_splice)
{
	static const uint8_t header[RP_BLOCK_HEADER_BYTES];
	struct rp_splice *splice = calloc(1, sizeof(*splice));
	int ret = 0;

	if (!splice)
		return -ENOMEM;
	/* 0 would be a thread of whom nothing is known. */
	splice->sequence = 1;
	splice->plans = calloc(count, sizeof(*splice->plans));
	if (!splice->plans)
		ret = -ENOMEM;
	rp_outbuf_put(&splice->metadata, header, sizeof(header));
	while (!ret && splice->definition_count < count) {
		ret = define(splice, splice->definition_count,
			     &definitions[splice->definition_count]);
		splice->definition_count += !ret;
	}
	if (ret < 0) {
		rp_splice_destroy(splice);
		return ret;
	}
	*ret_splice = splice;
	return 0;
}

void rp_splice_destroy(struct rp_splice *splice)
{
	if (!splice)
		return;
	for (size_t i = 0; i < splice->definition_count; i++)
		rp_plan_fini(&splice->plans[i]);
	free(splice->plans);
	rp_outbuf_fini(&splice->metadata);
	rp_outbuf_fini(&splice->input);
	free(splice->held);
	rp_outbuf_fini(&splice->output.output);
	rp_outbuf_fini(&splice->block);
	rp_type_table_fini(&splice->types);
	rp_current_fini(&splice->current);
	free(splice);
}

const void *rp_splice_output(struct rp_splice *splice, size_t *ret_size)
{
	*ret_size = splice->output.output.size - splice->output.head;
	return *ret_size ? splice->output.output.bytes + splice->output.head : NULL;
}

void rp_splice_consume(struct rp_splice *splice, size_t size)
{
	assert(size <= splice->output.output.size - splice->output.head);
	splice->output.head += size;
	if (splice->output.head == splice->output.output.size)
		splice->output.head = splice->output.output.size = 0;
}
