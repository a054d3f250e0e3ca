/* SPDX-License-Identifier: MIT */
/* Reads the whole traces of excerpts while the view is served. */
#ifndef RP_TOOL_VIEW_LOAD_H
#define RP_TOOL_VIEW_LOAD_H

#include "tools/view/view_query.h"

struct rp_view_load;

/*
 * Prepare to read the whole traces of a view.
 * @ret_load: NULL if the view has no excerpts.
 * Return: 0; -ENOMEM.
 */
int rp_view_load_create(struct rp_traces *view, struct rp_view_load **ret_load);

/*
 * Start a thread that replaces the excerpts of the view, one after another. Further calls have no
 * effect. NULL is allowed.
 * Context: any thread. The caller holds the view's lock for reading.
 */
void rp_view_load_start(struct rp_view_load *load);

/* Wait for the thread, which a readable `signal_fd` of the view ends. NULL is allowed. */
void rp_view_load_destroy(struct rp_view_load *load);

#endif
