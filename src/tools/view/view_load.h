/* SPDX-License-Identifier: MIT */
/* Reads the whole traces of previews while the view is served. */
#ifndef RP_TOOL_VIEW_LOAD_H
#define RP_TOOL_VIEW_LOAD_H

#include "tools/view/view_query.h"

struct rp_view_load;

/*
 * Start a thread that replaces the previews of a view, one after another.
 * @ret_load: NULL if the view has no previews.
 * Return: 0; -ENOMEM; -EAGAIN.
 */
int rp_view_load_start(struct rp_traces *view, struct rp_view_load **ret_load);

/* Wait for the thread, which a readable `signal_fd` of the view ends. NULL is allowed. */
void rp_view_load_stop(struct rp_view_load *load);

#endif
