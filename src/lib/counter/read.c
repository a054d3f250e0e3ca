/* SPDX-License-Identifier: MIT */
/* Reading counters in the process, and running the callbacks of observed ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "base/thread.h"
#include "counter/counters.h"
#include "counter/state.h"

struct rp_observation {
	struct rp_instrument *instrument;
};

struct rp_counter_window {
	struct rp_view view;
	struct rp_instrument *instrument;
	struct rp_series *series;	/* NULL: all series of the instrument */
	uint64_t since_ns;
};

RP_PUBLIC int rp_observe(struct rp_observation *observation, double value,
			 const struct rp_counter_tag *tags, size_t tag_count)
{
	struct rp_series *series;
	int ret;

	if (value - value != 0)
		return -EINVAL;
	pthread_mutex_lock(&rp_counters.lock);
	ret = rp_series_find(observation->instrument, tags, tag_count, &series);
	if (ret == 0) {
		series->seen = value;
		series->is_seen = true;
		series->was_seen = true;
	}
	pthread_mutex_unlock(&rp_counters.lock);
	return ret;
}

void rp_instrument_observe(struct rp_instrument *instrument, uint64_t poll)
{
	struct rp_observation observation = { .instrument = instrument };
	struct rp_series *series;
	int ret;

	/* A callback that reads its own counter gets the values observed so far. */
	if (instrument->observing && pthread_equal(instrument->observer, pthread_self()))
		return;
	instrument->users++;
	while (instrument->observing)
		pthread_cond_wait(&rp_counters.changed, &rp_counters.lock);
	instrument->users--;
	pthread_cond_broadcast(&rp_counters.changed);
	if (instrument->poll >= poll || instrument->going)
		return;
	instrument->observing = true;
	instrument->observer = pthread_self();
	cds_list_for_each_entry(series, &instrument->series, node)
		series->is_seen = false;
	pthread_mutex_unlock(&rp_counters.lock);
	ret = instrument->observe(&observation, instrument->data);
	pthread_mutex_lock(&rp_counters.lock);
	instrument->observed = ret;
	instrument->poll = poll;
	instrument->observing = false;
	pthread_cond_broadcast(&rp_counters.changed);
}

void rp_group_observe(struct rp_group *group, uint64_t poll)
{
	struct rp_instrument *instrument;

	/* The list may have changed while the lock was released. */
again:
	cds_list_for_each_entry(instrument, &group->instruments, node) {
		if (!rp_kind_is_observed(instrument->kind) || instrument->poll == poll ||
		    instrument->going)
			continue;
		rp_instrument_observe(instrument, poll);
		goto again;
	}
}

static void fill(struct rp_counter_reading *reading, const struct rp_delta *delta, uint32_t kind,
		 uint64_t interval_ns)
{
	reading->kind = kind;
	reading->interval_s = (double)interval_ns / 1e9;
	if (kind == RP_COUNTER_HISTOGRAM) {
		reading->count = delta->count;
		reading->sum = delta->sum;
		reading->mean = rp_delta_mean(delta);
		reading->deviation = rp_delta_deviation(delta);
		reading->min = rp_delta_min(delta);
		reading->max = rp_delta_max(delta);
		reading->p50 = rp_delta_quantile(delta, 0.5);
		reading->p95 = rp_delta_quantile(delta, 0.95);
		reading->p99 = rp_delta_quantile(delta, 0.99);
		if (interval_ns)
			reading->per_second = (double)delta->count / reading->interval_s;
		return;
	}
	reading->value = delta->has_value ? delta->value : __builtin_nan("");
	reading->change = delta->change;
	if (interval_ns)
		reading->per_second = delta->change / reading->interval_s;
}

/* The caller holds the lock. */
static int take(struct rp_counter_window *window, struct rp_counter_reading *ret_reading)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;
	uint32_t kind = window->instrument->kind;
	uint64_t now_ns = rp_clock_monotonic_ns();
	struct rp_delta delta;
	int ret = rp_delta_init(&delta, kind);

	if (ret != 0)
		return ret;
	if (rp_kind_is_observed(kind)) {
		rp_instrument_observe(window->instrument, ++rp_counters.poll);
		ret = window->instrument->observed;
	}
	if (ret == 0 && window->series)
		rp_mark_take(rp_view_find(&window->view, window->series), &delta);
	else if (ret == 0)
		ret = rp_view_take(&window->view, window->instrument, &delta);
	if (ret == 0) {
		fill(&reading, &delta, kind, window->since_ns ? now_ns - window->since_ns : 0);
		window->since_ns = window->since_ns ? now_ns : 0;
		rp_sized_write(ret_reading, &reading, sizeof(reading));
	}
	rp_delta_fini(&delta);
	return ret;
}

/* The handle of a series opens that series; a counter opens all. The caller holds the lock. */
static int open_window(struct rp_counter_window *window, struct rp_counter *counter,
		       bool from_start)
{
	struct rp_series *given = counter->core, *series;
	int ret = 0;

	rp_view_init(&window->view);
	window->instrument = given->instrument;
	window->series = *given->tags ? given : NULL;
	if (rp_kind_is_observed(counter->kind) && !from_start)
		rp_instrument_observe(window->instrument, ++rp_counters.poll);
	cds_list_for_each_entry(series, &window->instrument->series, node) {
		if (ret == 0 && (!window->series || window->series == series))
			ret = rp_view_mark(&window->view, series, from_start, NULL);
	}
	if (ret != 0)
		rp_view_fini(&window->view);
	return ret;
}

/* Read all values since the counter was created. The caller holds the lock. */
static int read_from_start(struct rp_counter *counter, struct rp_counter_reading *ret_reading)
{
	struct rp_counter_window window = { .since_ns = 0 };
	int ret = open_window(&window, counter, true);

	if (ret == 0) {
		ret = take(&window, ret_reading);
		rp_view_fini(&window.view);
	}
	return ret;
}

RP_PUBLIC int rp_counter_read(struct rp_counter *counter, struct rp_counter_reading *ret_reading)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	int ret;

	if (!counter || !counter->core || !ret_reading ||
	    !rp_sized_fits(ret_reading, RP_COUNTER_READING_SIZE_V1))
		return -EINVAL;
	pthread_mutex_lock(&rp_counters.lock);
	ret = read_from_start(counter, ret_reading);
	pthread_mutex_unlock(&rp_counters.lock);
	return ret;
}

/* The series without tags, which represents the counter. The caller holds the lock. */
static struct rp_counter *find_counter(const char *provider, const char *name)
{
	struct rp_group *group = rp_group_find(provider);
	struct rp_instrument *instrument;

	if (!group)
		return NULL;
	cds_list_for_each_entry(instrument, &group->instruments, node) {
		if (!instrument->going && strcmp(instrument->name, name) == 0)
			return &cds_list_first_entry(&instrument->series, struct rp_series,
						     node)->public;
	}
	return NULL;
}

int rp_counter_read_named(const char *provider, const char *name,
			  struct rp_counter_reading *ret_reading)
{
	struct rp_counter *counter;
	int ret;

	pthread_mutex_lock(&rp_counters.lock);
	counter = find_counter(provider, name);
	ret = counter ? read_from_start(counter, ret_reading) : -ENOENT;
	pthread_mutex_unlock(&rp_counters.lock);
	return ret;
}

RP_PUBLIC int rp_counter_window_open(struct rp_counter *counter,
				     struct rp_counter_window **ret_window)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct rp_counter_window *window;
	int ret;

	if (!counter || !counter->core || !ret_window)
		return -EINVAL;
	window = calloc(1, sizeof(*window));
	if (!window)
		return -ENOMEM;
	pthread_mutex_lock(&rp_counters.lock);
	window->since_ns = rp_clock_monotonic_ns();
	ret = open_window(window, counter, false);
	pthread_mutex_unlock(&rp_counters.lock);
	if (ret != 0) {
		free(window);
		return ret;
	}
	*ret_window = window;
	return 0;
}

RP_PUBLIC int rp_counter_window_read(struct rp_counter_window *window,
				     struct rp_counter_reading *ret_reading)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	int ret;

	if (!window || !ret_reading || !rp_sized_fits(ret_reading, RP_COUNTER_READING_SIZE_V1))
		return -EINVAL;
	pthread_mutex_lock(&rp_counters.lock);
	ret = take(window, ret_reading);
	pthread_mutex_unlock(&rp_counters.lock);
	return ret;
}

RP_PUBLIC void rp_counter_window_close(struct rp_counter_window *window)
{
	if (!window)
		return;
	pthread_mutex_lock(&rp_counters.lock);
	rp_view_fini(&window->view);
	pthread_mutex_unlock(&rp_counters.lock);
	free(window);
}
