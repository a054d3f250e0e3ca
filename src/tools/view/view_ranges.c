/* SPDX-License-Identifier: MIT */
#include "tools/view/view_ranges.h"

#include <pthread.h>
#include <stdlib.h>

#include "tools/view/view_model_parts.h"

/* The timeline and the panes may ask for different ranges, of two traces. */
#define RANGES 4u

struct view_range {
	struct rp_view_trace trace;
	int64_t from_ns, to_ns;		/* that were asked for; those of the trace are wider */
	uint64_t used;			/* 0: the row is free */
};

struct rp_view_ranges {
	pthread_mutex_t lock;
	uint64_t uses;
	struct view_range rows[RANGES];
};

struct rp_view_ranges *rp_view_ranges_create(void)
{
	struct rp_view_ranges *ranges = calloc(1, sizeof(*ranges));

	if (ranges)
		pthread_mutex_init(&ranges->lock, NULL);
	return ranges;
}

/* The index belongs to the excerpt. */
static void close_range(struct view_range *range)
{
	range->used = 0;
	range->trace.index = NULL;
	rp_view_trace_close(&range->trace);
}

void rp_view_ranges_destroy(struct rp_view_ranges *ranges)
{
	if (!ranges)
		return;
	for (size_t i = 0; i < RANGES; i++) {
		if (ranges->rows[i].used)
			close_range(&ranges->rows[i]);
	}
	pthread_mutex_destroy(&ranges->lock);
	free(ranges);
}

/* A part of a range that was read as an excerpt is read again, with more of its events. */
static bool has_range(const struct view_range *range, int64_t from_ns, int64_t to_ns)
{
	if (!range->used || from_ns < range->from_ns || to_ns > range->to_ns)
		return false;
	return !range->trace.is_excerpt || (from_ns == range->from_ns && to_ns == range->to_ns);
}

/* Return: the row that has the range, or else the least recently used row. */
static struct view_range *find_range(struct rp_view_ranges *ranges, int64_t from_ns, int64_t to_ns)
{
	struct view_range *oldest = &ranges->rows[0];

	for (size_t i = 0; i < RANGES; i++) {
		if (has_range(&ranges->rows[i], from_ns, to_ns))
			return &ranges->rows[i];
		if (ranges->rows[i].used < oldest->used)
			oldest = &ranges->rows[i];
	}
	return oldest;
}

static int read_range(const struct rp_view_trace *excerpt, struct view_range *range,
		      int64_t from_ns, int64_t to_ns, int signal_fd)
{
	int ret;

	if (range->used)
		close_range(range);
	range->from_ns = from_ns;
	range->to_ns = to_ns;
	ret = rp_view_trace_open_range(&range->trace, excerpt, from_ns, to_ns, signal_fd);
	if (ret)
		close_range(range);
	return ret;
}

int rp_view_ranges_get(const struct rp_view_trace *excerpt, int64_t from_ns, int64_t to_ns,
		       int signal_fd, const struct rp_view_trace **ret_trace)
{
	struct rp_view_ranges *ranges = excerpt->ranges;
	struct view_range *range;
	int ret = 0;

	pthread_mutex_lock(&ranges->lock);
	if (rp_view_count_range(excerpt->index, from_ns, to_ns) > excerpt->index->events / 2) {
		*ret_trace = excerpt;
		return 0;
	}
	range = find_range(ranges, from_ns, to_ns);
	if (!has_range(range, from_ns, to_ns))
		ret = read_range(excerpt, range, from_ns, to_ns, signal_fd);
	if (ret) {
		pthread_mutex_unlock(&ranges->lock);
		return ret;
	}
	range->used = ++ranges->uses;
	*ret_trace = &range->trace;
	return 0;
}

void rp_view_ranges_put(const struct rp_view_trace *excerpt)
{
	pthread_mutex_unlock(&excerpt->ranges->lock);
}
