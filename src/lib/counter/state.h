/* SPDX-License-Identifier: MIT */
/*
 * Counters from inside: groups by provider name, instruments, series, and who looks at them.
 *
 * One mutex, rp_counters.lock, guards all of it. It is never held across a callback or a wait, and
 * is taken before the engine's, never after.
 *
 * Each observer has a view: a mark on each series, with the values of its last collection. Sums,
 * counts and buckets only grow, so marks need no changes to the series, and views are independent
 * of each other. The smallest and largest values are removed from the cells by the first view that
 * collects, and passed to all marks of the series.
 */
#ifndef RP_COUNTER_STATE_H
#define RP_COUNTER_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include <ringpipe/counter.h>
#include <ringpipe/event.h>
#include <ringpipe/provider.h>

#include "base/chains.h"

#define RP_EVENT_COUNTER_SHAPES 2u

/* All counters of providers of one name; never goes. */
struct rp_group {
	struct cds_list_head node;	/* in counters.groups */
	char *name;
	struct cds_list_head instruments;
	struct cds_list_head timers;	/* struct rp_timer */
	struct rp_provider *provider;	/* made when a session first asks */
	struct rp_event *events[RP_EVENT_COUNTER_SHAPES];
};

struct rp_instrument {
	struct cds_list_head node;	/* in group->instruments */
	struct rp_group *group;
	uint32_t id;			/* as clients know it; never 0 */
	uint32_t kind;
	uint32_t sites;			/* declared: objects that have it; 0: dynamic */
	uint32_t rate_seconds;
	char *name, *unit, *display_name, *metadata;
	struct cds_list_head series;	/* the first is the one without tags */
	uint32_t series_count;
	int (*observe)(struct rp_observation *observation, void *data);
	void *data;
	bool observing;
	bool going;			/* a thread waits to free it */
	uint32_t users;			/* threads that wait for its callback in another */
	pthread_t observer;
	int observed;			/* what the callback returned last */
	uint64_t poll;			/* the collection it was asked in */
	uint8_t hidden;			/* enum rp_views: it is not shown there */
};

enum rp_views {
	RP_VIEW_EVENT_COUNTERS = 1,
	RP_VIEW_METERS = 2,
};

struct rp_series {
	struct rp_counter public;	/* first: a series is a struct rp_counter, too */
	struct cds_list_head node;	/* in instrument->series */
	struct rp_chain_node by_tags;	/* in rp_counters.by_tags, but for the one without tags */
	struct rp_instrument *instrument;
	struct cds_list_head marks;
	char *tags;			/* "key=value,key2=value2" in the order of keys, or "" */
	uint64_t early;			/* taken over from objects that are gone */
	struct cds_list_head sites;	/* struct rp_counter_site, of the one without tags */
	bool is_seen, was_seen;		/* observed: in the last call, ever */
	double seen;
};

/* A declared counter of another object than the series' own. */
struct rp_counter_site {
	struct cds_list_head node;
	struct rp_counter *counter;
};

struct rp_view {
	struct cds_list_head marks;
	uint32_t count, histograms;	/* of the marks */
};

struct rp_mark {
	struct cds_list_head of_series, of_view;
	struct rp_view *view;
	struct rp_series *series;
	int64_t sum;
	double seen;
	bool has_seen;
	double total;			/* histograms: the sum of all values so far */
	uint64_t count;			/* … and how many those are */
	uint64_t max, min;		/* as in struct rp_histogram_header */
	uint64_t *buckets;		/* histograms */
};

/* The changes since one or several marks. */
struct rp_delta {
	double value, change;
	bool has_value, has_change;
	uint64_t count;
	double sum;
	uint64_t max, min;
	uint32_t first, end;		/* buckets that may not be 0 */
	uint64_t *buckets;		/* histograms: RP_BUCKET_COUNT; the caller's */
};

struct rp_counters {
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* a callback returned */
	struct cds_list_head groups;
	struct rp_chains by_tags;	/* series of all instruments */
	uint32_t next_id;
	uint64_t poll;			/* collections begun */
	uint32_t work;			/* the thread has to look at the sessions; its futex */
	/* Called with the lock before an instrument is freed; may be NULL. */
	void (*ending)(struct rp_instrument *instrument);
};

extern struct rp_counters rp_counters;

/* Wakes the thread, if there is one, to look at the sessions again. Any context. */
void rp_counters_look(void);
bool rp_kind_is_sum(uint32_t kind);
bool rp_kind_is_gauge(uint32_t kind);
bool rp_kind_is_observed(uint32_t kind);

/* instrument.c, with the lock held */
struct rp_group *rp_group_find(const char *name);
int rp_series_find(struct rp_instrument *instrument, const struct rp_counter_tag *tags,
		   size_t tag_count, struct rp_series **ret_series);
/*
 * As rp_counter_create(), for a provider by name; `hidden` of enum rp_views. Takes the lock;
 * `ret_series` may be NULL.
 */
int rp_instrument_create(const char *provider, const struct rp_counter_decl *decl, uint8_t hidden,
			 struct rp_series **ret_series);
void rp_builtin_create(void);		/* builtin.c, without the lock */

/* read.c, with the lock held */
/*
 * Runs the callback, with the lock given up meanwhile, unless it was run in this poll. Afterwards
 * instruments may have gone, this one included.
 */
void rp_instrument_observe(struct rp_instrument *instrument, uint64_t poll);
/* The same with all of the group's. */
void rp_group_observe(struct rp_group *group, uint64_t poll);

#define RP_TAGS_CAPACITY 256u

/*
 * tags.c: "key=value,…" in the order of keys. The text is in `space`, of RP_TAGS_CAPACITY bytes,
 * where it fits, so that counting by tags allocates nothing, else malloced. Return: 0, -EINVAL or
 * -ENOMEM.
 */
int rp_tags_join(const struct rp_counter_tag *tags, size_t tag_count, char *space, char **ret_text);

/* view.c, with the lock held */
void rp_view_init(struct rp_view *view);
void rp_view_fini(struct rp_view *view);
struct rp_mark *rp_view_find(struct rp_view *view, const struct rp_series *series);
/* `from_start`: as if it had been there since the counter was made. 0 or -ENOMEM. */
int rp_view_mark(struct rp_view *view, struct rp_series *series, bool from_start,
		 struct rp_mark **ret_mark);
void rp_series_forget(struct rp_series *series);	/* drops all marks */
/* Adds what happened since the last time to the delta. */
void rp_mark_take(struct rp_mark *mark, struct rp_delta *delta);
/* All series of the instrument; those without a mark get one from their start. */
int rp_view_take(struct rp_view *view, struct rp_instrument *instrument, struct rp_delta *delta);
/* A delta with zeroed buckets, if the kind has them. 0 or -ENOMEM. */
int rp_delta_init(struct rp_delta *delta, uint32_t kind);
void rp_delta_fini(struct rp_delta *delta);
double rp_delta_quantile(const struct rp_delta *delta, double quantile);
double rp_delta_mean(const struct rp_delta *delta);
double rp_delta_deviation(const struct rp_delta *delta);
double rp_delta_max(const struct rp_delta *delta);
double rp_delta_min(const struct rp_delta *delta);

#endif
