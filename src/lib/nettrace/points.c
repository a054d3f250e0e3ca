/* SPDX-License-Identifier: MIT */
/* Sequence points, with the losses that they state, and the rows of V6 that number them. */
#include <errno.h>

#include "nettrace/encoder_parts.h"
#include "nettrace/event_header.h"
#include "nettrace/thread_rows.h"

/*
 * V4 states the session's losses as the event numbers of artificial capture threads, from id
 * LOST_THREAD on. Each stands for up to LOST_STEP losses, because TraceEvent takes a step of 2^31
 * for a step back. Their numbers start at 1, because it takes 0 for a new thread.
 */
#define LOST_THREAD (1ull << 63)
#define LOST_STEP 0x7fffffffull

int rp_encoder_begin_rows(struct rp_encoder *encoder)
{
	encoder->next_index = INDEX_THREADS;
	if (rp_thread_row_put(&encoder->thread_rows, INDEX_EVENTS, 0, 0, NULL) < 0)
		return -ENOMEM;
	return rp_thread_row_put(&encoder->thread_rows, INDEX_LOST, 0, 0, NULL);
}

static void put_marked_threads(struct rp_encoder *encoder)
{
	struct rp_thread_table *threads = &encoder->threads;

	for (size_t i = 0; threads->marked; i++) {
		struct rp_thread_slot *slot = &threads->slots[i];

		if (!slot->marked)
			continue;
		slot->marked = 0;
		threads->marked--;
		rp_object_stream_put_u64(&encoder->stream, slot->thread);
		rp_object_stream_put_u32(&encoder->stream, slot->sequence);
	}
}

/* Return the number of entries that put_lost() writes. */
static uint64_t lost_entries(const struct rp_encoder *encoder, uint64_t lost)
{
	if (lost <= encoder->lost)
		return 1;
	return 2 * ((lost - 1) / LOST_STEP - encoder->lost / LOST_STEP + 1);
}

/*
 * Put two entries for each artificial thread: its previous number, then its new number. When
 * TraceEvent knows more than 5,000 threads, it forgets these first, because they have no events.
 * The previous number then shows it from where to count.
 */
static void put_lost(struct rp_encoder *encoder, uint64_t lost)
{
	do {
		uint64_t thread = LOST_THREAD + encoder->lost / LOST_STEP;
		uint64_t reported = encoder->lost % LOST_STEP;
		uint64_t step = lost > encoder->lost ? lost - encoder->lost : 0;

		rp_object_stream_put_u64(&encoder->stream, thread);
		rp_object_stream_put_u32(&encoder->stream, 1 + reported);
		if (!step)
			break;
		if (step > LOST_STEP - reported)
			step = LOST_STEP - reported;
		rp_object_stream_put_u64(&encoder->stream, thread);
		rp_object_stream_put_u32(&encoder->stream, 1 + reported + step);
		encoder->lost += step;
	} while (encoder->lost < lost);
}

static int put_point_v4(struct rp_encoder *encoder, uint64_t time_ns, uint64_t lost)
{
	struct rp_object_stream *stream = &encoder->stream;
	uint64_t count = encoder->threads.marked + lost_entries(encoder, lost);
	uint32_t size = 12 + 12 * count;

	if (count > UINT32_MAX / 16 || rp_object_stream_reserve(stream, size + RP_OBJECT_BYTES) < 0)
		return -ENOMEM;
	rp_object_stream_begin_block(stream, RP_BLOCK_SEQUENCE_POINT, size);
	rp_object_stream_put_u64(stream, time_ns);
	rp_object_stream_put_u32(stream, count);
	put_marked_threads(encoder);
	put_lost(encoder, lost);
	rp_object_stream_end_block(stream);
	return 0;
}

static void put_number(struct rp_outbuf *content, uint32_t index, uint32_t number)
{
	uint8_t entry[12], *p = rp_wire_varint_put(entry, index);

	p = rp_wire_varint_put(p, number);
	rp_outbuf_put(content, entry, (size_t)(p - entry));
}

/* A reader takes a step of 2^31 for a step back, so write several smaller steps. */
static uint32_t put_lost_v6(struct rp_encoder *encoder, uint64_t lost, struct rp_outbuf *content)
{
	uint32_t count = 0;

	while (encoder->lost < lost) {
		uint64_t step = lost - encoder->lost;

		encoder->lost += step < LOST_STEP ? step : LOST_STEP;
		put_number(content, INDEX_LOST, (uint32_t)(encoder->lost - encoder->lost_base));
		count++;
	}
	return count;
}

/* Put the time, the flags and the number of capture threads, and then their last numbers. */
static int put_point_v6(struct rp_encoder *encoder, uint64_t time_ns, uint64_t lost, uint32_t flags)
{
	struct rp_outbuf content = { 0 };
	uint32_t count = encoder->events_since_point;
	int ret = -ENOMEM;

	rp_outbuf_put_u64(&content, time_ns);
	rp_outbuf_put_u32(&content, flags);
	rp_outbuf_put_u32(&content, 0);
	if (encoder->events_since_point)
		put_number(&content, INDEX_EVENTS, encoder->sequence);
	count += put_lost_v6(encoder, lost, &content);
	if (!content.failed && rp_object_stream_reserve(&encoder->stream, content.size +
							RP_OBJECT_BYTES) == 0) {
		memcpy(content.bytes + 12, &count, sizeof(count));
		rp_object_stream_put_block(&encoder->stream, RP_BLOCK_SEQUENCE_POINT, content.bytes,
					   content.size);
		encoder->events_since_point = false;
		encoder->threads.marked = 0;
		ret = 0;
	}
	rp_outbuf_fini(&content);
	return ret;
}

int rp_encoder_put_point(struct rp_encoder *encoder, uint64_t time_ns, uint64_t lost,
			 uint32_t flags)
{
	int ret = encoder->stream.is_v6 ? put_point_v6(encoder, time_ns, lost, flags) :
		  put_point_v4(encoder, time_ns, lost);

	if (ret < 0)
		return ret;
	rp_stack_set_next(&encoder->stacks, true);
	rp_label_set_next(&encoder->labels, true);
	return 0;
}
