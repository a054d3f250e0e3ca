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

/* Take the value that an event has of a counter. Return: 0; -ENOMEM. */
int rp_view_take_counter(struct rp_view_trace *trace, const struct rp_reader_event *event,
			 uint64_t process);

#endif
