/* SPDX-License-Identifier: MIT */
#include "tools/analysis/counter_series.h"

#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Compare two series by provider, name, tags and quantile. */
static int compare_series(const struct rp_counter_series *a, const struct rp_counter_series *b)
{
	int order = strcmp(a->provider, b->provider);

	if (!order)
		order = strcmp(a->name, b->name);
	if (!order)
		order = strcmp(a->tags, b->tags);
	if (!order)
		order = (a->quantile > b->quantile) - (a->quantile < b->quantile);
	if (!order)
		order = a->is_rate - b->is_rate;
	return order ? order : a->is_instrument - b->is_instrument;
}

static int compare(const void *left, const void *right)
{
	const struct rp_counter_series *a = left, *b = right;

	if (a->process != b->process)
		return (a->process > b->process) - (a->process < b->process);
	return compare_series(a, b);
}

static int compare_pointers(const void *left, const void *right)
{
	return compare(*(void *const *)left, *(void *const *)right);
}

/* Replace the texts, which are on the stack of the caller. Return: whether there is memory. */
static bool keep_texts(struct rp_counter_set *set, struct rp_counter_series *series)
{
	const char **const texts[] = {
		&series->provider, &series->name, &series->tags, &series->unit, &series->display,
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		*texts[i] = rp_text_pool_add(&set->texts, *texts[i]);
		if (!*texts[i])
			return false;
	}
	return true;
}

/* Return: the series of the key; NULL: no memory, or the bound, which is counted. */
static struct rp_counter_series *find(struct rp_counter_set *set,
				      const struct rp_counter_series *key, int *ret)
{
	struct rp_counter_series **found = tfind(key, &set->tree, compare), **grown, *series;

	*ret = 0;
	if (found)
		return *found;
	if (set->count == RP_COUNTER_SERIES_MAX) {
		set->ignored++;
		return NULL;
	}
	*ret = -ENOMEM;
	grown = rp_array_reserve(set->series, set->count, &set->capacity, 1, sizeof(*grown));
	if (!grown)
		return NULL;
	set->series = grown;
	series = malloc(sizeof(*series));
	if (!series)
		return NULL;
	*series = *key;
	if (!keep_texts(set, series) || !tsearch(series, &set->tree, compare)) {
		free(series);
		return NULL;
	}
	*ret = 0;
	return set->series[set->count++] = series;
}

static int add_point(struct rp_counter_set *set, struct rp_counter_series *series,
		     int64_t time_ns, double value)
{
	struct rp_counter_point *grown;

	if (set->points == RP_COUNTER_POINTS_MAX)
		return 0;
	grown = rp_array_reserve(series->points, series->point_count, &series->point_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	series->points = grown;
	grown[series->point_count++] = (struct rp_counter_point){ time_ns, value };
	set->points++;
	return 0;
}

static int add(struct rp_counter_set *set, const struct rp_counter_series *key, int64_t time_ns,
	       double value)
{
	struct rp_counter_series *series;
	int ret;

	if (!isfinite(value))
		return 0;
	series = find(set, key, &ret);
	if (!series)
		return ret;
	if (series->count++ == 0) {
		series->first_ns = time_ns;
		series->first = series->min = series->max = value;
	}
	series->last_ns = time_ns;
	series->last = value;
	series->min = value < series->min ? value : series->min;
	series->max = value > series->max ? value : series->max;
	/* The sum of huge values could overflow, and so could their difference. */
	series->mean += value / (double)series->count - series->mean / (double)series->count;
	return add_point(set, series, time_ns, value);
}

int rp_counter_set_take(struct rp_counter_set *set, const struct rp_reader_event *event,
			uint64_t process)
{
	struct rp_counter_sample sample;
	struct rp_counter_series key = { .process = process, .quantile = -1 };
	int ret = 0;

	/* Few events are counters, and rp_counter_decode() clears a large struct. */
	if (strcmp(event->type->name, "EventCounters") != 0 &&
	    strcmp(event->type->provider, RP_COUNTER_METRICS_PROVIDER) != 0)
		return 0;
	if (rp_counter_decode(event, 0, &sample) != RP_COUNTER_SAMPLE)
		return 0;
	key.provider = sample.provider;
	key.name = sample.name;
	key.tags = sample.tags;
	key.unit = sample.unit;
	key.display = sample.display;
	key.is_rate = sample.form == RP_COUNTER_RATE;
	key.is_instrument = sample.is_instrument;
	if (sample.form != RP_COUNTER_SPREAD)
		return add(set, &key, event->time_ns, rp_counter_shown(&sample));
	for (uint32_t i = 0; ret == 0 && i < sample.quantile_count; i++) {
		key.quantile = sample.quantiles[i].at;
		ret = add(set, &key, event->time_ns, sample.quantiles[i].value);
	}
	return ret;
}

void rp_counter_set_sort(struct rp_counter_set *set)
{
	if (set->count)
		qsort(set->series, set->count, sizeof(*set->series), compare_pointers);
}

static void keep(void *node)
{
	(void)node;
}

void rp_counter_set_fini(struct rp_counter_set *set)
{
	tdestroy(set->tree, keep);
	for (size_t i = 0; i < set->count; i++) {
		free(set->series[i]->points);
		free(set->series[i]);
	}
	free(set->series);
	rp_text_pool_fini(&set->texts);
	*set = (struct rp_counter_set){ 0 };
}
