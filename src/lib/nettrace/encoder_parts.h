/* SPDX-License-Identifier: MIT */
/*
 * The encoder: encoder.c has events, encoder_types.c their types, points.c sequence points, losses
 * and rows.
 */
#ifndef RP_NETTRACE_ENCODER_PARTS_H
#define RP_NETTRACE_ENCODER_PARTS_H

#include "nettrace/convert.h"
#include "nettrace/delivery.h"
#include "nettrace/encoder.h"
#include "nettrace/header.h"
#include "nettrace/label_set.h"
#include "nettrace/objects.h"
#include "nettrace/outbuf.h"
#include "nettrace/repeat.h"
#include "nettrace/self_describing.h"
#include "nettrace/stack_block.h"
#include "nettrace/thread_table.h"

/*
 * Indexes of the rows of a V6 stream. V6 counts events by capture thread, which is a row without a
 * process. All events of a stream share one capture thread, and the losses have another. A separate
 * index names the thread that wrote the event. The encoder uses no index twice, because TraceEvent
 * 4.0.0 confuses a new row with a removed row of the same index.
 */
enum {
	INDEX_EVENTS,
	INDEX_LOST,
	INDEX_THREADS,
	/* From here on, no thread gets a second row: readers limit the number of rows. */
	INDEX_NAMED_MAX = 1 << 18,
};

struct rp_encoder_event_type {
	struct rp_encoder_plain plain;	/* no payload is plain until the stream has the type */
	struct rp_plan plan;
	struct rp_outbuf blob;		/* the encoded definition, until it is in the stream */
	bool reported;
	bool is_internal;
	struct rp_definition *raw;	/* of an event whose payload may describe itself; or NULL */
};

struct rp_encoder {
	struct rp_encoder_repeat repeat;	/* first: its address is the encoder's */
	uint8_t *block;			/* content of the open event block */
	size_t block_used;		/* its header included */
	uint64_t block_events;
	uint64_t block_internal;	/* of these, events of the library's own types */
	uint64_t block_first_ns;
	struct rp_header_state state;
	struct rp_thread_table threads;
	struct rp_thread_slot *thread;	/* of the previous event */
	struct rp_stack_set stacks;
	struct rp_outbuf metadata;	/* content of the MetadataBlock, or empty */
	struct rp_outbuf thread_rows;	/* V6: content of the Thread block, or empty */
	struct rp_label_set labels;	/* V6 */
	uint32_t next_index;		/* V6: of the next thread */
	uint32_t sequence;		/* V6: of the last event */
	uint32_t process_id;
	bool events_since_point;	/* V6 */
	struct rp_object_stream stream;
	struct rp_delivery delivery;
	uint64_t shortened;		/* events whose payload was cut */
	uint64_t last_ns;
	uint64_t lost;			/* in the last sequence point */
	uint64_t lost_base;		/* V6: losses before this encoder's first row */
	struct rp_encoder_event_type **types;
	uint32_t type_count;
	uint32_t type_capacity;
	struct rp_self_describing_types described;
	uint32_t used_ids;		/* the highest metadata id of the stream that continues */
};

void rp_encoder_destroy_type(struct rp_encoder_event_type *type);

/* V6: put the rows of the two capture threads. 0; -ENOMEM. */
int rp_encoder_begin_rows(struct rp_encoder *encoder);

/* Put a sequence point after all blocks; `flags` are V6's. 0; -ENOMEM. */
int rp_encoder_put_point(struct rp_encoder *encoder, uint64_t time_ns, uint64_t lost,
			 uint32_t flags);

#endif
