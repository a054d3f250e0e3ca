/* SPDX-License-Identifier: MIT */
/* The ranges of a large trace that were read lately, because the user has zoomed or selected. */
#ifndef RP_TOOL_VIEW_RANGES_H
#define RP_TOOL_VIEW_RANGES_H

#include "tools/view/view_model.h"

/* Return: for rp_view_ranges_destroy(); NULL: no memory. */
struct rp_view_ranges *rp_view_ranges_create(void);

/* NULL is allowed. */
void rp_view_ranges_destroy(struct rp_view_ranges *ranges);

/*
 * Get the events of a range of an excerpt's trace, and read them if they were not read lately.
 * @ret_trace: until rp_view_ranges_put(), after success; the excerpt itself if the range has most
 *	events of the trace.
 * Context: any thread. Other threads that call the function for the same trace wait until then.
 * Return: as rp_view_trace_open_range().
 */
int rp_view_ranges_get(const struct rp_view_trace *excerpt, int64_t from_ns, int64_t to_ns,
		       int signal_fd, const struct rp_view_trace **ret_trace);
void rp_view_ranges_put(const struct rp_view_trace *excerpt);

#endif
