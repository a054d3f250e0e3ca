/* SPDX-License-Identifier: MIT */
#include "tools/view/view_load.h"

#include <errno.h>
#include <stdlib.h>

struct rp_view_load {
	struct rp_traces *view;
	pthread_t thread;
};

/* Replace a preview by the whole trace. Both have the same index. */
static void replace(struct rp_traces *view, struct rp_view_trace *preview,
		    struct rp_view_trace *whole)
{
	struct rp_view_trace old;

	pthread_rwlock_wrlock(view->lock);
	old = *preview;
	*preview = *whole;
	preview->permille = NULL;
	pthread_rwlock_unlock(view->lock);
	old.index = NULL;
	rp_view_trace_close(&old);
}

/* Keep the preview. Its reader has printed the cause, unless memory is missing. */
static void give_up(struct rp_traces *view, struct rp_view_trace *preview)
{
	pthread_rwlock_wrlock(view->lock);
	preview->is_preview = false;
	(void)rp_view_trace_warn(preview, "The trace could not be read completely: the panes show "
				 "parts of it.");
	pthread_rwlock_unlock(view->lock);
}

static void *run(void *data)
{
	struct rp_view_load *load = data;
	struct rp_traces *view = load->view;
	int ret = 0;

	for (size_t i = 0; i < view->count && ret != -ECANCELED; i++) {
		struct rp_view_trace whole;

		if (!view->traces[i].is_preview)
			continue;
		__atomic_store_n(&view->permille, 0, __ATOMIC_RELAXED);
		ret = rp_view_trace_open_whole(&whole, &view->traces[i], view->signal_fd,
					       &view->permille);
		if (ret == 0) {
			replace(view, &view->traces[i], &whole);
			continue;
		}
		whole.index = NULL;
		rp_view_trace_close(&whole);
		if (ret != -ECANCELED)
			give_up(view, &view->traces[i]);
	}
	return NULL;
}

int rp_view_load_start(struct rp_traces *view, struct rp_view_load **ret_load)
{
	struct rp_view_load *load;
	bool has_preview = false;
	int ret;

	*ret_load = NULL;
	for (size_t i = 0; i < view->count; i++)
		has_preview |= view->traces[i].is_preview;
	if (!has_preview)
		return 0;
	load = calloc(1, sizeof(*load));
	if (!load)
		return -ENOMEM;
	load->view = view;
	ret = pthread_create(&load->thread, NULL, run, load);
	if (ret) {
		free(load);
		return -ret;
	}
	*ret_load = load;
	return 0;
}

void rp_view_load_stop(struct rp_view_load *load)
{
	if (!load)
		return;
	pthread_join(load->thread, NULL);
	free(load);
}
