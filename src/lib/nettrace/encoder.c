/* SPDX-License-Identifier: MIT */
#include "nettrace/encoder_parts.h"

#include <assert.h>

#include "base/heap.h"
#include "nettrace/thread_rows.h"

/* A block holds one event of the largest size and is closed when the next might not fit. */
#define BLOCK_BYTES (96u << 10)
/* An output buffer larger than this is freed when it is empty. */
#define OUTPUT_KEEP_BYTES (8u << 20)

static struct rp_encoder *make_encoder(uint64_t last_ns)
{
	struct rp_encoder *encoder = rp_heap_zalloc(1, sizeof(*encoder));

	if (!encoder)
		return NULL;
	rp_stack_set_init(&encoder->stacks);
	rp_label_set_init(&encoder->labels);
	encoder->last_ns = last_ns;
	encoder->block_used = RP_BLOCK_HEADER_BYTES;
	encoder->block = rp_heap_alloc(BLOCK_BYTES);
	if (!encoder->block) {
		rp_encoder_destroy(encoder);
		return NULL;
	}
	return encoder;
}

int rp_encoder_create(const struct rp_encoder_info *info, struct rp_encoder **ret_encoder)
{
	struct rp_encoder *encoder = make_encoder(info->start_ns);
	int ret = encoder ? rp_object_stream_put_header(&encoder->stream, info) : -ENOMEM;

	if (ret == 0 && encoder->stream.is_v6) {
		encoder->process_id = info->process_id;
		encoder->labels.own_ids = info->own_ids;
		encoder->delivery.has_labels = true;
		ret = rp_encoder_begin_rows(encoder);
	}
	if (ret < 0) {
		rp_encoder_destroy(encoder);
		return -ENOMEM;
	}
	*ret_encoder = encoder;
	return 0;
}

/*
 * Continue a stream. Its stacks and threads are not valid after this sequence point. In V6, the
 * point removes all rows, so the numbers of events and losses start at 0 again.
 */
static int resume(struct rp_encoder *encoder, const struct rp_encoder_point *point)
{
	encoder->stream.offset = point->stream_offset;
	rp_delivery_reset(&encoder->delivery, point->stream_offset);
	encoder->used_ids = point->metadata_id;
	encoder->stream.is_v6 = point->version == RP_NETTRACE_V6;
	encoder->lost = point->lost;
	encoder->process_id = point->process_id;
	encoder->labels.own_ids = point->own_ids;
	encoder->delivery.has_labels = encoder->stream.is_v6;
	encoder->lost_base = point->lost;
	if (rp_encoder_put_point(encoder, point->last_ns, point->lost, RP_POINT_FLUSH_THREADS) < 0)
		return -ENOMEM;
	return encoder->stream.is_v6 ? rp_encoder_begin_rows(encoder) : 0;
}

int rp_encoder_resume(const struct rp_encoder_point *point, struct rp_encoder **ret_encoder)
{
	struct rp_encoder *encoder = make_encoder(point->last_ns);

	if (!encoder)
		return -ENOMEM;
	if (resume(encoder, point) < 0) {
		rp_encoder_destroy(encoder);
		return -ENOMEM;
	}
	*ret_encoder = encoder;
	return 0;
}

int rp_encoder_resume_thread(struct rp_encoder *encoder, uint64_t thread, uint32_t sequence)
{
	struct rp_thread_slot *slot;
	int ret = rp_thread_table_add(&encoder->threads, thread, &slot);

	if (ret == 0)
		slot->sequence = sequence;
	return ret;
}

void rp_encoder_destroy(struct rp_encoder *encoder)
{
	if (!encoder)
		return;
	for (uint32_t i = 0; i < encoder->type_count; i++)
		rp_encoder_destroy_type(encoder->types[i]);
	rp_heap_free(encoder->types);
	rp_heap_free(encoder->block);
	rp_thread_table_fini(&encoder->threads);
	rp_stack_set_fini(&encoder->stacks);
	rp_outbuf_fini(&encoder->metadata);
	rp_outbuf_fini(&encoder->thread_rows);
	rp_label_set_fini(&encoder->labels);
	rp_outbuf_fini(&encoder->stream.output);
	rp_delivery_fini(&encoder->delivery);
	rp_self_describing_fini(&encoder->described);
	rp_heap_free(encoder);
}

/* In V4 a definition is the payload of an event. */
static int put_definition_v4(struct rp_encoder *encoder, const struct rp_outbuf *blob)
{
	uint8_t header[32] = { RP_EVENT_SORTED | RP_EVENT_SIZE }, *p = header + 1;
	struct rp_outbuf *metadata = &encoder->metadata;

	/* Each event's time is a step from the one before: absolute for the first, then none. */
	p = rp_wire_varint_put(p, metadata->size ? 0 : encoder->last_ns);
	/* A blob without flag RP_EVENT_METADATA has id 0, which is what makes it a definition. */
	p = rp_wire_varint_put(p, blob->size);
	if (rp_outbuf_reserve(metadata, RP_BLOCK_HEADER_BYTES + sizeof(header) + blob->size) < 0)
		return -ENOMEM;
	if (!metadata->size) {
		rp_wire_block_header_put(metadata->bytes, encoder->last_ns, encoder->last_ns);
		metadata->size = RP_BLOCK_HEADER_BYTES;
	}
	rp_outbuf_put(metadata, header, p - header);
	rp_outbuf_put(metadata, blob->bytes, blob->size);
	return 0;
}

/* In V6 a definition is a row of the block, which begins with the size of an empty header. */
static int put_definition_v6(struct rp_encoder *encoder, const struct rp_outbuf *blob)
{
	static const uint8_t header[2];
	struct rp_outbuf *metadata = &encoder->metadata;

	if (rp_outbuf_reserve(metadata, sizeof(header) + blob->size) < 0)
		return -ENOMEM;
	if (!metadata->size)
		rp_outbuf_put(metadata, header, sizeof(header));
	rp_outbuf_put(metadata, blob->bytes, blob->size);
	return 0;
}

/* Append the definition of a type to the open Metadata block, before the type's first event. */
static int emit_type(struct rp_encoder *encoder, uint32_t metadata_id)
{
	struct rp_encoder_event_type *type = encoder->types[metadata_id - encoder->used_ids - 1];
	int ret = encoder->stream.is_v6 ? put_definition_v6(encoder, &type->blob) :
		  put_definition_v4(encoder, &type->blob);

	if (ret < 0)
		return ret;
	rp_outbuf_fini(&type->blob);
	type->reported = true;
	if (type->raw)
		return 0;	/* not for the fast path, which puts no second event */
	type->plain.converts = type->plan.kind == RP_PLAN_CONVERT;
	if (!type->plain.converts)
		type->plain.bytes = type->plan.min_bytes;
	return 0;
}

/* The number of the last event. V4 numbers the events of each thread, V6 those of the stream. */
static inline uint32_t *number_of(struct rp_encoder *encoder)
{
	return encoder->stream.is_v6 ? &encoder->sequence : &encoder->thread->sequence;
}

/* Count the events that took the fast path. The next event takes the slow path. */
static void settle(struct rp_encoder *encoder)
{
	struct rp_encoder_repeat *repeat = &encoder->repeat;
	struct rp_header_state *state = &encoder->state;

	repeat->end = repeat->at;
	if (!repeat->count)
		return;
	encoder->block_used = repeat->at - encoder->block;
	encoder->block_events += repeat->count;
	*number_of(encoder) += repeat->count;
	encoder->last_ns = repeat->time_ns;
	state->sequence += repeat->count;
	state->time = repeat->time_ns;
	state->metadata_id = repeat->metadata_id;
	state->payload_bytes = repeat->payload_bytes;
	repeat->count = 0;
}

/* Put the event block. The caller has reserved the space. */
static void put_events(struct rp_encoder *encoder)
{
	struct rp_delivery_block block = {
		.counted = encoder->block_events - encoder->block_internal,
	};

	rp_wire_block_header_put(encoder->block, encoder->block_first_ns, encoder->last_ns);
	rp_object_stream_put_block(&encoder->stream, RP_BLOCK_EVENT, encoder->block,
				   encoder->block_used);
	block.end = encoder->stream.offset - rp_object_stream_end_bytes(&encoder->stream);
	block.begin = block.end - encoder->block_used + RP_BLOCK_HEADER_BYTES;
	rp_delivery_add(&encoder->delivery, &block);
}

/* Put a block of gathered content, unless the content is empty. */
static void put_gathered(struct rp_encoder *encoder, enum rp_block_kind kind,
			 const struct rp_outbuf *content)
{
	if (content->size)
		rp_object_stream_put_block(&encoder->stream, kind, content->bytes, content->size);
}

/* Put the gathered definitions, rows, stacks and labels before the events that refer to them. */
static int close_block(struct rp_encoder *encoder)
{
	int ret;

	settle(encoder);
	ret = rp_object_stream_reserve(&encoder->stream, encoder->metadata.size +
				       encoder->thread_rows.size + encoder->labels.content.size +
				       encoder->stacks.content.size + encoder->block_used +
				       5 * RP_OBJECT_BYTES);
	if (ret == 0)
		ret = rp_delivery_reserve(&encoder->delivery);
	if (ret < 0)
		return ret;
	put_gathered(encoder, RP_BLOCK_METADATA, &encoder->metadata);
	encoder->metadata.size = 0;
	put_gathered(encoder, RP_BLOCK_THREAD, &encoder->thread_rows);
	encoder->thread_rows.size = 0;
	put_gathered(encoder, RP_BLOCK_STACK, &encoder->stacks.content);
	put_gathered(encoder, RP_BLOCK_LABEL_LIST, &encoder->labels.content);
	rp_label_set_next(&encoder->labels, false);
	rp_stack_set_next(&encoder->stacks, false);
	if (encoder->block_events)
		put_events(encoder);
	encoder->block_events = 0;
	encoder->block_internal = 0;
	encoder->block_used = RP_BLOCK_HEADER_BYTES;
	memset(&encoder->state, 0, sizeof(encoder->state));
	return 0;
}

/*
 * V6: put the thread's row before its first event, and another row when it gets another name, key
 * or value. The slot of a thread has their hash instead of a number.
 */
static int put_thread(struct rp_encoder *encoder, const struct rp_encoder_event *event)
{
	const uint32_t process = event->process ? event->process : encoder->process_id;
	const uint32_t hash = rp_thread_row_hash(event->row);
	struct rp_thread_slot *thread = encoder->thread;

	if (thread->index &&
	    (!hash || hash == thread->sequence || encoder->next_index >= INDEX_NAMED_MAX))
		return 0;
	if (rp_thread_row_put(&encoder->thread_rows, encoder->next_index, process, event->thread,
			      event->row) < 0)
		return -ENOMEM;
	thread->index = encoder->next_index++;
	thread->sequence = hash;
	return 0;
}

/* V6: find the rows and the label list of the event. */
static int prepare_v6(struct rp_encoder *encoder, const struct rp_encoder_event *event,
		      struct rp_header_state *now)
{
	if ((!encoder->thread->index || event->row) && put_thread(encoder, event) < 0)
		return -ENOMEM;
	now->capture_thread = INDEX_EVENTS;
	now->thread = encoder->thread->index;
	if (event->labels)
		return rp_label_set_intern_list(&encoder->labels, event->labels,
						event->label_bytes, &now->labels);
	return rp_label_set_intern(&encoder->labels, event->activity, event->related_activity,
				   &now->labels);
}

/* Do everything that may fail for an event, before any part of the event is written. */
static int prepare(struct rp_encoder *encoder, const struct rp_encoder_event *event, size_t bound,
		   struct rp_header_state *now)
{
	const struct rp_encoder_event_type *type = event->type;
	uint32_t frames = event->frame_count < RP_STACK_MAX ? event->frame_count : RP_STACK_MAX;
	int ret = 0;

	if (encoder->block_used + RP_WIRE_HEADER_MAX + bound > BLOCK_BYTES ||
	    (frames && rp_stack_set_full(&encoder->stacks)) ||
	    rp_label_set_full(&encoder->labels, event->label_bytes))
		ret = close_block(encoder);
	if (ret == 0 && !type->reported)
		ret = emit_type(encoder, type->plain.metadata_id);
	if (ret == 0 && (!encoder->thread || encoder->thread->thread != event->thread))
		ret = rp_thread_table_add(&encoder->threads, event->thread, &encoder->thread);
	if (ret < 0)
		return ret;
	now->capture_thread = now->thread = event->thread;
	if (encoder->stream.is_v6)
		ret = prepare_v6(encoder, event, now);
	now->stack = 0;
	return ret == 0 && frames ?
	       rp_stack_set_intern(&encoder->stacks, event->frames, frames, event->time_ns,
				   &now->stack) : ret;
}

/* Open the fast path after an event without a stack and ids; otherwise close it. */
static void begin_repeat(struct rp_encoder *encoder, const struct rp_encoder_event *event,
			 const struct rp_header_state *now)
{
	uint8_t *at = encoder->block + encoder->block_used;
	bool open = !now->stack && !event->activity && !event->related_activity && !event->labels;

	encoder->repeat = (struct rp_encoder_repeat){
		.at = at,
		.end = open ? encoder->block + BLOCK_BYTES : at,
		.thread = event->thread,
		.time_ns = event->time_ns,
		.processor = event->processor,
		.metadata_id = now->metadata_id,
		.payload_bytes = now->payload_bytes,
	};
}

struct rp_encoder_repeat *rp_encoder_repeat(struct rp_encoder *encoder)
{
	return &encoder->repeat;
}

/*
 * The size precedes the payload but is known only after the conversion. So convert the payload at a
 * distance, and then move it to its place.
 */
bool rp_encoder_repeat_run_converted(struct rp_encoder_repeat *repeat,
				     const struct rp_encoder_event_type *type, uint64_t time_ns,
				     const void *payload, uint32_t payload_bytes)
{
	struct rp_encoder *encoder = (void *)repeat;
	uint8_t *late = repeat->at + RP_WIRE_HEADER_MAX;
	size_t bytes;
	bool cut;

	if ((size_t)(repeat->end - repeat->at) <
	    RP_WIRE_HEADER_MAX + rp_plan_bound(&type->plan, payload_bytes))
		return false;
	bytes = rp_plan_run(&type->plan, payload, payload_bytes, late, &cut);
	memmove(rp_encoder_repeat_header(repeat, type, time_ns, bytes), late, bytes);
	encoder->shortened += cut;
	return true;
}

static int put_event(struct rp_encoder *encoder, const struct rp_encoder_event *event)
{
	const struct rp_plan *plan = &event->type->plan;
	size_t bound = rp_plan_bound(plan, event->payload_bytes);
	struct rp_header_state now;
	uint8_t *start, *payload, *late;
	bool cut;
	int ret;

	settle(encoder);
	ret = prepare(encoder, event, bound, &now);
	if (ret < 0)
		return ret;
	start = encoder->block + encoder->block_used;
	now.metadata_id = event->type->plain.metadata_id;
	now.sequence = *number_of(encoder) + 1;
	now.processor = event->processor;
	now.time = event->time_ns;
	if (plan->kind == RP_PLAN_CONVERT) {
		/* As in rp_encoder_repeat_run_converted(): convert at a distance, then move. */
		late = start + RP_WIRE_HEADER_MAX;
		now.payload_bytes = rp_plan_run(plan, event->payload, event->payload_bytes, late,
						&cut);
		payload = rp_header_put(&encoder->state, event, &now, encoder->stream.is_v6,
					start);
		memmove(payload, late, now.payload_bytes);
	} else {
		now.payload_bytes = bound;
		payload = rp_header_put(&encoder->state, event, &now, encoder->stream.is_v6,
					start);
		rp_plan_run(plan, event->payload, event->payload_bytes, payload, &cut);
	}
	encoder->shortened += cut;
	*number_of(encoder) = now.sequence;
	encoder->threads.marked += !encoder->thread->marked;
	encoder->thread->marked = 1;
	if (!encoder->block_events++)
		encoder->block_first_ns = event->time_ns;
	encoder->block_internal += event->type->is_internal;
	encoder->last_ns = event->time_ns;
	encoder->block_used = payload + now.payload_bytes - encoder->block;
	encoder->events_since_point = true;
	begin_repeat(encoder, event, &now);
	return 0;
}

/* The raw event is in the stream. Without memory, the described one is left out. */
static __attribute__((noinline)) void put_described(struct rp_encoder *encoder,
						    const struct rp_encoder_event *raw)
{
	struct rp_encoder_event event;

	if (rp_self_describing_get(&encoder->described, encoder, raw->type->raw, raw, &event) == 1)
		(void)rp_encoder_event(encoder, &event);
}

int rp_encoder_event(struct rp_encoder *encoder, const struct rp_encoder_event *event)
{
	int ret = put_event(encoder, event);

	if (ret == 0 && __builtin_expect(event->type->raw != NULL, 0))
		put_described(encoder, event);
	return ret;
}

int rp_encoder_sequence_point(struct rp_encoder *encoder, uint64_t time_ns, uint64_t lost)
{
	int ret = close_block(encoder);

	return ret < 0 ? ret : rp_encoder_put_point(encoder, time_ns, lost, 0);
}

uint64_t rp_encoder_shortened(const struct rp_encoder *encoder)
{
	return encoder->shortened;
}

const struct rp_address *rp_encoder_addresses(struct rp_encoder *encoder, size_t *ret_count,
				     uint64_t *ret_more)
{
	struct rp_address_set *addresses = &encoder->stacks.addresses;

	*ret_count = addresses->count;
	*ret_more = addresses->left_out;
	return rp_address_set_list(addresses);
}

int rp_encoder_flush(struct rp_encoder *encoder)
{
	return close_block(encoder);
}

int rp_encoder_end(struct rp_encoder *encoder)
{
	int ret = close_block(encoder);

	return ret < 0 ? ret : rp_object_stream_put_end(&encoder->stream);
}

int rp_encoder_cut(struct rp_encoder *encoder, uint64_t stream_offset, uint64_t time_ns,
		   uint64_t lost_before, uint64_t lost)
{
	int ret = close_block(encoder);

	if (ret < 0)
		return ret;
	encoder->stream.output.size = 0;
	encoder->stream.head = 0;
	encoder->stream.offset = stream_offset;
	rp_delivery_reset(&encoder->delivery, stream_offset);
	/* Put no threads: their numbers include the events cut off, which `lost` counts. */
	for (size_t i = 0; i < encoder->threads.capacity; i++)
		encoder->threads.slots[i].marked = 0;
	encoder->threads.marked = 0;
	encoder->events_since_point = false;
	encoder->lost = lost_before;
	ret = rp_encoder_sequence_point(encoder, time_ns, lost);
	return ret < 0 ? ret : rp_encoder_end(encoder);
}

const void *rp_encoder_output(struct rp_encoder *encoder, size_t *ret_size)
{
	*ret_size = encoder->stream.output.size - encoder->stream.head;
	return encoder->stream.output.bytes + encoder->stream.head;
}

static bool counts(const void *data, uint32_t metadata_id)
{
	const struct rp_encoder *encoder = data;

	return !encoder->types[metadata_id - encoder->used_ids - 1]->is_internal;
}

void rp_encoder_consume(struct rp_encoder *encoder, size_t size)
{
	struct rp_object_stream *stream = &encoder->stream;

	assert(size <= stream->output.size - stream->head);
	rp_delivery_take(&encoder->delivery, stream->output.bytes + stream->head, size, counts,
			 encoder);
	stream->head += size;
	if (stream->head < stream->output.size)
		return;
	stream->head = 0;
	stream->output.size = 0;
	if (stream->output.capacity > OUTPUT_KEEP_BYTES)
		rp_outbuf_fini(&stream->output);
}

uint64_t rp_encoder_consumed_events(const struct rp_encoder *encoder)
{
	return encoder->delivery.events;
}

size_t rp_encoder_memory(const struct rp_encoder *encoder)
{
	size_t bytes = sizeof(*encoder) + BLOCK_BYTES + encoder->stream.output.capacity +
		encoder->metadata.capacity + encoder->thread_rows.capacity +
		rp_stack_set_memory(&encoder->stacks) + rp_label_set_memory(&encoder->labels) +
		encoder->delivery.capacity * sizeof(*encoder->delivery.blocks) +
		encoder->threads.capacity * sizeof(*encoder->threads.slots) +
		encoder->type_capacity * sizeof(*encoder->types) +
		rp_self_describing_memory(&encoder->described);

	for (uint32_t i = 0; i < encoder->type_count; i++) {
		const struct rp_encoder_event_type *type = encoder->types[i];

		bytes += sizeof(*type) + type->blob.capacity + rp_plan_memory(&type->plan);
	}
	return bytes;
}
