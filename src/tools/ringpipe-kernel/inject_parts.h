/* SPDX-License-Identifier: MIT */
/*
 * The parts of the injection: inject.c has the queue and the events, inject_v4.c and inject_v6.c
 * have the outer layers of the two versions of the format.
 */
#ifndef RP_KERNEL_INJECT_PARTS_H
#define RP_KERNEL_INJECT_PARTS_H

#include "nettrace/format.h"
#include "nettrace/label_lists.h"
#include "nettrace/label_set.h"
#include "nettrace/objects.h"
#include "nettrace/thread_rows.h"
#include "nettrace/type_table.h"
#include "tools/ringpipe-kernel/current.h"
#include "tools/ringpipe-kernel/inject.h"

#define RP_INJECT_LISTS 256u

/* A label list that contains only an activity id, written since the last sequence point. */
struct rp_inject_list {
	struct rp_guid activity;
	uint32_t id;			/* 0: none */
};

struct rp_kernel_inject {
	struct rp_plan *plans;
	size_t definition_count;
	struct rp_outbuf metadata;	/* V4: content of a MetadataBlock: the kernel events */
	struct rp_outbuf rows;		/* V6: the same of a Metadata block */

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

	/* V6. The stream's label lists get other ids, between those of the kernel events. */
	uint64_t process;
	struct rp_thread_rows threads;	/* of the stream, by index */
	struct rp_thread_table indexes;	/* maps a thread to its index in the output */
	struct rp_label_lists labels;	/* of the stream, by its ids */
	struct rp_outbuf label_ranges;	/* struct label_range, since the last sequence point */
	struct rp_label_set label_set;	/* of kernel events, and the next id of the output */
	struct rp_inject_list lists[RP_INJECT_LISTS];	/* by a hash of the activity */
};

int rp_inject_put_object(struct rp_kernel_inject *inject, enum rp_block_kind kind,
			 const void *content, size_t size);
int rp_inject_close_block(struct rp_kernel_inject *inject);
int rp_inject_put_event(struct rp_kernel_inject *inject, const struct rp_wire_event *event,
			const uint8_t *payload);

/* Write the held kernel events up to a time, `most` at most. */
int rp_inject_put_until(struct rp_kernel_inject *inject, uint64_t time, size_t most);

/* Put a sequence point that states the capture thread's number, and the end of the stream. */
int rp_inject_put_last_point(struct rp_kernel_inject *inject);
int rp_inject_put_last_point_v6(struct rp_kernel_inject *inject);

/* Handle the file header, or the next object of the input. 1; 0: it is incomplete; -errno. */
int rp_inject_take_header_v4(struct rp_kernel_inject *inject, struct rp_cursor *c);
int rp_inject_take_header_v6(struct rp_kernel_inject *inject, struct rp_cursor *c);
int rp_inject_step_v4(struct rp_kernel_inject *inject, struct rp_cursor *c);
int rp_inject_step_v6(struct rp_kernel_inject *inject, struct rp_cursor *c);

/* Give a kernel event the index of its thread, and the list of its activity. -ENOMEM. */
int rp_inject_identify_v6(struct rp_kernel_inject *inject, uint64_t thread,
			  struct rp_wire_event *event);

/* Put the label lists of kernel events, before the events that refer to them. -ENOMEM. */
int rp_inject_put_labels(struct rp_kernel_inject *inject);

#endif
