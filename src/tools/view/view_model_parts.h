/* SPDX-License-Identifier: MIT */
/* Shared by the files that make the model of a trace. */
#ifndef RP_TOOL_VIEW_MODEL_PARTS_H
#define RP_TOOL_VIEW_MODEL_PARTS_H

#include "tools/analysis/call_parts.h"
#include "tools/view/view_model.h"

#define RP_VIEW_DEPTH_MAX 64

/* Find or add the thread. Return: 0; -ENOMEM. */
int rp_view_add_thread(struct rp_view_trace *trace, uint64_t process, uint64_t thread,
		       uint32_t *ret_thread);

/* Read the file twice. Return: as rp_view_trace_open(). */
int rp_view_read(struct rp_view_trace *trace, int signal_fd);

/* Read the range of the trace with the names of the excerpt. Return: likewise. */
int rp_view_read_range(struct rp_view_trace *trace, const struct rp_view_trace *excerpt,
		       int signal_fd);

/* Return: how many events the blocks have that have an event of the times. */
uint64_t rp_view_count_range(const struct rp_trace_index *index, int64_t from_ns, int64_t to_ns);

/* Extend a range by the events around it, in which its spans and waits may begin or end. */
void rp_view_widen_range(struct rp_view_trace *trace);

/*
 * Prepare the series of an excerpt, after its last event, to estimate the events that were not
 * read. Return: 0; -ENOMEM.
 */
int rp_view_finish_parts(struct rp_view_trace *trace);

/* Take the value that an event has of a counter. Return: 0; -ENOMEM. */
int rp_view_take_counter(struct rp_view_trace *trace, const struct rp_reader_event *event,
			 uint64_t process);

#endif
