/* SPDX-License-Identifier: MIT */
#include "tools/view/view_load.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/view/view_ranges.h"

struct rp_view_load {
	struct rp_traces *view;
	pthread_mutex_t lock;		/* of `is_started` */
	bool is_started;
	pthread_t thread;
};

static void set_loading(struct rp_traces *view, bool is_loading)
{
	for (size_t i = 0; i < view->count; i++)
		__atomic_store_n(&view->traces[i].is_loading,
				 is_loading && view->traces[i].is_excerpt, __ATOMIC_RELAXED);
}

/* Replace an excerpt by the whole trace. Both have the same index. */
static void replace(struct rp_traces *view, struct rp_view_trace *excerpt,
		    struct rp_view_trace *whole)
{
	struct rp_view_trace old;

	pthread_rwlock_wrlock(view->lock);
	old = *excerpt;
	*excerpt = *whole;
	excerpt->permille = NULL;
	pthread_rwlock_unlock(view->lock);
	/* The ranges share the index. */
	rp_view_ranges_destroy(old.ranges);
	old.ranges = NULL;
	old.index = NULL;
	rp_view_trace_close(&old);
}

/* Keep the excerpt. Its reader has printed the cause, unless memory is missing. */
static void give_up(struct rp_traces *view, struct rp_view_trace *excerpt)
{
	pthread_rwlock_wrlock(view->lock);
	excerpt->is_loading = false;
	(void)rp_view_trace_warn(excerpt, "The trace could not be read completely: the panes show "
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

		if (!view->traces[i].is_excerpt)
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

int rp_view_load_create(struct rp_traces *view, struct rp_view_load **ret_load)
{
	struct rp_view_load *load;
	bool has_excerpt = false;

	*ret_load = NULL;
	for (size_t i = 0; i < view->count; i++)
		has_excerpt |= view->traces[i].is_excerpt;
	if (!has_excerpt)
		return 0;
	load = calloc(1, sizeof(*load));
	if (!load)
		return -ENOMEM;
	load->view = view;
	pthread_mutex_init(&load->lock, NULL);
	*ret_load = load;
	return 0;
}

void rp_view_load_start(struct rp_view_load *load)
{
	if (!load)
		return;
	pthread_mutex_lock(&load->lock);
	if (!load->is_started) {
		set_loading(load->view, true);
		load->is_started = pthread_create(&load->thread, NULL, run, load) == 0;
		if (!load->is_started)
			set_loading(load->view, false);
	}
	pthread_mutex_unlock(&load->lock);
}

void rp_view_load_destroy(struct rp_view_load *load)
{
	if (!load)
		return;
	if (load->is_started)
		pthread_join(load->thread, NULL);
	pthread_mutex_destroy(&load->lock);
	free(load);
}
