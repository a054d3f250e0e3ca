/* SPDX-License-Identifier: MIT */
/* The state of a merge, for the files that it consists of. */
#ifndef RP_TOOL_TRACE_MERGE_PARTS_H
#define RP_TOOL_TRACE_MERGE_PARTS_H

#include "nettrace/encoder.h"
#include "nettrace/outbuf.h"
#include "nettrace/reader_parts.h"
#include "nettrace/thread_table.h"
#include "tools/trace/loss_table.h"
#include "tools/trace/trace_merge.h"

enum rp_merge_event {
	RP_MERGE_PROCESS, RP_MERGE_THREAD, RP_MERGE_END, RP_MERGE_EXISTING_PROCESS,
	RP_MERGE_PROCESS_CREATE, RP_MERGE_PROCESS_EXIT, RP_MERGE_PROCESS_INFO,
	RP_MERGE_SOURCE, RP_MERGE_KEY_VALUE, RP_MERGE_EVENT_COUNT,
};

/* One source, and its next event. */
struct rp_merge_strand {
	struct rp_trace_merge_source *source;
	uint32_t index;			/* of the strand */
	uint32_t first;			/* index of the first strand of the process */
	struct rp_reader *reader;	/* NULL: it has no header yet, or is done */
	uint64_t offset;		/* of what the reader reads next */
	uint64_t released;		/* the file's blocks before it were given back */
	struct rp_reader_info info;
	struct rp_reader_event event;
	bool has_event;
	uint64_t start_ns, time_ns;	/* CLOCK_MONOTONIC */
	bool is_reported;
	struct rp_thread_table ids;	/* of mappings and functions -> those in the trace */
};

struct rp_trace_merge {
	pid_t process_id;
	uint32_t version;
	struct rp_output *output;
	struct rp_encoder *encoder;	/* NULL: no source had a header yet */
	struct rp_encoder_event_type *own[RP_MERGE_EVENT_COUNT];
	struct rp_merge_strand **strands;
	size_t count, capacity;
	struct rp_merge_strand **open;	/* those that may have more events, in the same order */
	size_t open_count, open_capacity;
	struct rp_thread_table threads;	/* maps a thread to its strand's index plus 1 */
	uint64_t time_ns;		/* time of the last event written */
	uint64_t lost;
	struct rp_loss_table losses;	/* those of `lost` with a reason */
	size_t held_bytes;		/* of the encoder's output, for which a disk had no space */
	bool is_finishing;		/* all sources are complete */
	struct rp_expression *until;	/* of rp_trace_merge_watch(); or NULL */
	volatile bool *ret_until;
	uint32_t next_id;		/* of mappings and functions */
	struct rp_outbuf renamed;	/* the payload of an event with other ids */
};

/* Define the events below in the encoder. 0; -ENOMEM. */
int rp_merge_define(struct rp_trace_merge *merge);

/*
 * State the process of the strand's event. `ret_thread`: the event's thread in the merged trace.
 * 0; -ENOMEM.
 */
int rp_merge_put_origin(struct rp_trace_merge *merge, struct rp_merge_strand *strand,
			uint64_t *ret_thread);

/* State that a strand has no more events. 0; -ENOMEM. */
int rp_merge_put_end(struct rp_trace_merge *merge, struct rp_merge_strand *strand);

/* State a recording that is merged as a whole. 0; -ENOMEM. */
int rp_merge_put_source(struct rp_trace_merge *merge, const struct rp_merge_strand *strand);

/* Give the event the ids and the clock that it has in the merged trace. 0; -ENOMEM. */
int rp_merge_rename(struct rp_trace_merge *merge, struct rp_merge_strand *strand,
		    struct rp_encoder_event *event);

/* Convert a time of the source to the trace's. */
static inline uint64_t rp_merge_time(const struct rp_trace_merge_source *source, uint64_t ns)
{
	return source->trace_clock ?
	       rp_machine_clock_convert(&source->clock, source->trace_clock, ns) : ns;
}

#endif
