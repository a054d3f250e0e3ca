/* SPDX-License-Identifier: MIT */
/*
 * Writes a trace of version 4 or 6 from events that a reader took from another trace. The encoder
 * writes what a session records; this writer keeps what the other trace has: its clock, the order
 * of its blocks, the numbers of lost events, and labels.
 *
 * While all events are sorted, the numbers of version 6 belong to one capture index, and those of
 * version 4 to the event's thread, as in traces of ringpipe. From the first unsorted event on, each
 * capture thread of the other trace has its own, because readers rely on the order in each.
 */
#ifndef RP_TOOL_TRACE_WRITER_H
#define RP_TOOL_TRACE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "nettrace/event_header.h"
#include "nettrace/label_set.h"
#include "nettrace/objects.h"
#include "nettrace/reader_parts.h"
#include "nettrace/thread_table.h"
#include "tools/trace/output.h"

struct rp_trace_writer {
	const struct rp_reader *reader;	/* the other trace */
	struct rp_output *output;
	struct rp_object_stream stream;
	bool is_v6;
	bool is_unsorted;		/* an event was not sorted */
	uint32_t metadata_ids;		/* used */
	struct rp_outbuf metadata, thread_rows, stacks, lists, events;	/* contents of blocks */
	struct rp_wire_event state;	/* of the open block of events */
	uint64_t block_offset;		/* of the other trace's block that it comes from */
	uint64_t first_time, last_time;
	struct rp_thread_table captures; /* capture thread -> its last number, V6: and index */
	struct rp_thread_table threads;	/* V6: hash of process, thread and name -> index */
	uint64_t next_index;		/* V6 */
	struct rp_thread_table stack_ids;	/* the other trace's id -> ours */
	struct rp_thread_table list_ids;
	struct rp_label_set ids;	/* label lists of the activity ids of version 4 */
	uint64_t lost;			/* in the last sequence point */
	uint64_t lost_pending;		/* for the next one */
	uint64_t bytes;			/* written */
};

/* The input of rp_trace_writer_event(). */
struct rp_trace_writer_event {
	const struct rp_reader_event *from;
	uint32_t metadata_id;
	uint64_t process;
	uint64_t lost_before;		/* events lost just before it */
	bool is_added;			/* it is not in the other trace: no stack, no labels */
	/* Version 6 from version 4: what only version 6 has; or NULL. */
	const struct rp_thread_row *row;	/* with the name of the thread */
	const struct rp_outbuf *labels;		/* a list */
	const void *payload;
	size_t payload_bytes;
};

/*
 * Write the head. 0; -ENOMEM.
 * @pairs: keys and values for version 6 that the head of the other trace lacks.
 */
int rp_trace_writer_begin(struct rp_trace_writer *writer, const struct rp_reader *reader,
			  uint32_t version, struct rp_output *output,
			  const struct rp_outbuf *pairs, uint32_t pair_count);

/* Take a metadata id, whose definition is then put by rp_trace_writer_put_definition(). */
uint32_t rp_trace_writer_take_id(struct rp_trace_writer *writer);

/* Put a blob of version 4 or a row of version 6, before the first event that has its id. */
int rp_trace_writer_put_definition(struct rp_trace_writer *writer, const struct rp_outbuf *blob);

/* Write an event. 0; -EMSGSIZE: too large for a block; -ENOMEM; -errno of the output. */
int rp_trace_writer_event(struct rp_trace_writer *writer,
			  const struct rp_trace_writer_event *event);

/* Put a sequence point. `lost` is the number of further losses. */
int rp_trace_writer_point(struct rp_trace_writer *writer, uint64_t lost);

/* Put the end of the trace, and write all output. */
int rp_trace_writer_end(struct rp_trace_writer *writer);

void rp_trace_writer_fini(struct rp_trace_writer *writer);

#endif
