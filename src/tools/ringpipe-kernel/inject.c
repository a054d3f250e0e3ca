/* SPDX-License-Identifier: MIT */
/*
 * The stream's events are encoded again, one after another, so that kernel events can be inserted
 * between them. An event marked as sorted promises that no earlier event follows it: kernel events
 * with an earlier time are inserted before it. A .NET process marks few events. There, kernel
 * events wait for the next marked event or sequence point and are inserted before it, ordered by
 * time. Readers of such a stream have to sort in any case.
 */
#include "tools/ringpipe-kernel/inject_parts.h"

#include <assert.h>
#include <stdlib.h>

#include "nettrace/convert.h"
#include "nettrace/metadata.h"

#define BLOCK_BYTES (64u << 10)		/* a block is closed at this size */
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

int rp_inject_put_object(struct rp_kernel_inject *inject, enum rp_block_kind kind,
			 const void *content, size_t size)
{
	if (rp_object_stream_reserve(&inject->output, size + RP_OBJECT_BYTES) < 0)
		return -ENOMEM;
	rp_object_stream_put_block(&inject->output, kind, content, size);
	return 0;
}

int rp_inject_close_block(struct rp_kernel_inject *inject)
{
	struct rp_outbuf *block = &inject->block;
	int ret;

	if (!block->size)
		return 0;
	ret = inject->output.is_v6 ? rp_inject_put_labels(inject) : 0;
	if (ret)
		return ret;
	rp_wire_block_header_put(block->bytes, inject->block_first, inject->last);
	ret = rp_inject_put_object(inject, RP_BLOCK_EVENT, block->bytes, block->size);
	block->size = 0;
	return ret;
}

/* The capture thread may change only at a sorted event or the first of a block. */
int rp_inject_put_event(struct rp_kernel_inject *inject, const struct rp_wire_event *event,
			const uint8_t *payload)
{
	struct rp_outbuf *block = &inject->block;
	bool changes = event->capture_thread != inject->state.capture_thread;

	if (block->size >= BLOCK_BYTES || (block->size && changes && !event->sorted)) {
		int ret = rp_inject_close_block(inject);

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
	block->size += rp_wire_event_put(&inject->state, event, inject->output.is_v6,
					 block->bytes + block->size);
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
	int ret = 0;

	if (inject->output.is_v6)
		ret = rp_inject_identify_v6(inject, held->thread, &event);
	else
		memcpy(event.activity, rp_current_activity(&inject->current, held->thread), 16);
	if (!ret)
		ret = rp_inject_put_event(inject, &event, held->payload);
	if (!ret)
		inject->sequence = event.sequence;
	return ret;
}

int rp_inject_put_until(struct rp_kernel_inject *inject, uint64_t time, size_t most)
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
	return rp_inject_put_until(inject, time_ns, inject->held_count / 2);
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
	if (rp_inject_close_block(inject) < 0 ||
	    put_raw(inject, inject->input.bytes + inject->input_at,
		    inject->input.size - inject->input_at) < 0)
		error = -ENOMEM;
	inject->input.size = inject->input_at = 0;
	inject->raw = true;
	return error;
}

/* Handle the file header, whose second word decides the version. */
static int take_header(struct rp_kernel_inject *inject, struct rp_cursor *c)
{
	struct rp_cursor head = *c;
	const uint8_t *magic;
	uint32_t word;

	if (rp_cursor_take(&head, 8, &magic) < 0 || rp_cursor_u32(&head, &word) < 0)
		return 0;
	if (memcmp(magic, RP_NETTRACE_MAGIC, 8))
		return -EBADMSG;
	return word ? rp_inject_take_header_v4(inject, c) : rp_inject_take_header_v6(inject, c);
}

/* Handle the next object of the input. Return: 1; 0 if it is incomplete; negative on error. */
static int step(struct rp_kernel_inject *inject, struct rp_cursor *c)
{
	if (inject->ended)
		return c->at < c->end ? -EBADMSG : 0;
	if (!inject->has_header)
		return take_header(inject, c);
	return inject->output.is_v6 ? rp_inject_step_v6(inject, c) : rp_inject_step_v4(inject, c);
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
	int ret = 0;

	if (inject->raw || !inject->has_header)
		return 0;
	ret = rp_inject_put_until(inject, UINT64_MAX, SIZE_MAX);
	if (!ret)
		ret = rp_inject_close_block(inject);
	if (ret || !inject->ended)
		return ret;
	return inject->output.is_v6 ? rp_inject_put_last_point_v6(inject) :
	       rp_inject_put_last_point(inject);
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
	rp_outbuf_put(&inject->metadata, header, rp_wire_event_put(&state, &event, false, header));
	rp_outbuf_put(&inject->metadata, blob.bytes, blob.size);
	ret = rp_metadata_write_row(&inject->rows, (uint32_t)index + 1, definition);
	if (blob.failed || inject->metadata.failed || inject->rows.failed)
		ret = -ENOMEM;
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
	/* A Metadata block of version 6 begins with the size of an empty header. */
	rp_outbuf_put(&inject->rows, header, 2);
	rp_label_set_init(&inject->label_set);
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
	rp_outbuf_fini(&inject->rows);
	rp_thread_rows_fini(&inject->threads);
	rp_thread_table_fini(&inject->indexes);
	rp_label_lists_fini(&inject->labels);
	rp_outbuf_fini(&inject->label_ranges);
	rp_label_set_fini(&inject->label_set);
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
