/* SPDX-License-Identifier: MIT */
/*
 * Internal structures of counters: groups by provider name, instruments, series and their
 * observers.
 *
 * One mutex, rp_counters.lock, guards all of them. A thread never holds it during a callback or a
 * wait. The lock order is this mutex first, then the core's.
 *
 * Each observer has a view: a mark on each series, with the values of its last collection. Sums,
 * counts and buckets only grow, so a mark needs no change to the series, and views are independent
 * of each other. For the smallest and the largest value, the first view that collects removes them
 * from the cells and stores them in all marks of the series.
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

/* All counters of providers with one name; never freed. */
struct rp_group {
	struct cds_list_head node;	/* in counters.groups */
	char *name;
	struct cds_list_head instruments;
	struct cds_list_head timers;	/* list of struct rp_timer */
	struct rp_provider *provider;	/* created when a session first requests counters */
	struct rp_event *events[RP_EVENT_COUNTER_SHAPES];
};

struct rp_instrument {
	struct cds_list_head node;	/* in group->instruments */
	struct rp_group *group;
	uint32_t id;			/* the id that clients see; never 0 */
	uint32_t kind;
	uint32_t sites;			/* number of objects that declare it; 0: dynamic */
	uint32_t rate_seconds;
	char *name, *unit, *display_name, *metadata;
	struct cds_list_head series;	/* the first is the one without tags */
	uint32_t series_count;
	int (*observe)(struct rp_observation *observation, void *data);
	void *data;
	bool observing;
	bool going;			/* a thread waits to destroy it */
	uint32_t users;			/* threads that wait until its callback returns */
	pthread_t observer;
	int observed;			/* the last return value of the callback */
	uint64_t poll;			/* the collection in which the callback last ran */
	uint8_t hidden;			/* enum rp_views: the views that do not show it */
};

enum rp_views {
	RP_VIEW_EVENT_COUNTERS = 1,
	RP_VIEW_METERS = 2,
};

struct rp_series {
	struct rp_counter public;	/* first member: a series is also a struct rp_counter */
	struct cds_list_head node;	/* in instrument->series */
	struct rp_chain_node by_tags;	/* in rp_counters.by_tags; unused without tags */
	struct rp_instrument *instrument;
	struct cds_list_head marks;
	char *tags;			/* "key=value,key2=value2", sorted by key, or "" */
	uint64_t early;			/* counts before the cells existed, of unloaded objects */
	struct cds_list_head sites;	/* list of struct rp_counter_site; only without tags */
	bool is_seen, was_seen;		/* observed: in the last call; in any call */
	double seen;
};

/* One object's declaration of a counter. */
struct rp_counter_site {
	struct cds_list_head node;
	struct rp_counter *counter;
};

struct rp_view {
	struct cds_list_head marks;
	uint32_t count, histograms;	/* number of marks; of histograms among them */
};

struct rp_mark {
	struct cds_list_head of_series, of_view;
	struct rp_view *view;
	struct rp_series *series;
	int64_t sum;
	double seen;
	bool has_seen;
	double total;			/* histograms: the sum of all values so far */
	uint64_t count;			/* … and their number */
	uint64_t max, min;		/* as in struct rp_histogram_header */
	uint64_t *buckets;		/* histograms */
};

/* The changes since the last collection of one or several marks. */
struct rp_delta {
	double value, change;
	bool has_value, has_change;
	uint64_t count;
	double sum;
	uint64_t max, min;
	uint32_t first, end;		/* range of buckets that may not be 0 */
	uint64_t *buckets;		/* histograms: RP_BUCKET_COUNT; owned by the delta */
};

struct rp_counters {
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* a callback returned */
	struct cds_list_head groups;
	struct rp_chains by_tags;	/* the series of all instruments that have tags */
	uint32_t next_id;
	uint64_t poll;			/* number of collections begun */
	uint32_t work;			/* futex: 1: the thread has to check the sessions */
	/* Called with the lock held before an instrument is freed; may be NULL. */
	void (*ending)(struct rp_instrument *instrument);
};

extern struct rp_counters rp_counters;

/* Make the thread, if it exists, check the sessions again. Context: any. */
void rp_counters_look(void);
bool rp_kind_is_sum(uint32_t kind);
bool rp_kind_is_gauge(uint32_t kind);
bool rp_kind_is_observed(uint32_t kind);

/* instrument.c; the caller holds the lock */
struct rp_group *rp_group_find(const char *name);
int rp_series_find(struct rp_instrument *instrument, const struct rp_counter_tag *tags,
		   size_t tag_count, struct rp_series **ret_series);
/*
 * As rp_counter_create(), for a provider by name. `hidden`: bits of enum rp_views. Takes the lock.
 * `ret_series` may be NULL.
 */
int rp_instrument_create(const char *provider, const struct rp_counter_decl *decl, uint8_t hidden,
			 struct rp_series **ret_series);
void rp_builtin_create(void);		/* builtin.c; without the lock */

/* read.c; the caller holds the lock */
/*
 * Run the callback, unless it ran in this poll. The function releases the lock meanwhile, so
 * instruments may have been destroyed afterwards, this one included.
 */
void rp_instrument_observe(struct rp_instrument *instrument, uint64_t poll);
/* As rp_instrument_observe(), for all observed instruments of the group. */
void rp_group_observe(struct rp_group *group, uint64_t poll);

#define RP_TAGS_CAPACITY 256u

/*
 * tags.c: join tags to "key=value,…", sorted by key. The text is in `space`, of RP_TAGS_CAPACITY
 * bytes, if it fits, so that tagged updates rarely allocate; otherwise the caller frees it. Return:
 * 0; -EINVAL: invalid or duplicate keys, or too many tags; -ENOMEM.
 */
int rp_tags_join(const struct rp_counter_tag *tags, size_t tag_count, char *space, char **ret_text);

/* view.c; the caller holds the lock */
void rp_view_init(struct rp_view *view);
void rp_view_fini(struct rp_view *view);
struct rp_mark *rp_view_find(struct rp_view *view, const struct rp_series *series);
/*
 * Put a mark on a series. `from_start`: as if the mark had existed since the counter's creation.
 * Return: 0 or -ENOMEM.
 */
int rp_view_mark(struct rp_view *view, struct rp_series *series, bool from_start,
		 struct rp_mark **ret_mark);
void rp_series_forget(struct rp_series *series);	/* removes all marks */
/* Add the changes since the mark's last collection to the delta. */
void rp_mark_take(struct rp_mark *mark, struct rp_delta *delta);
/*
 * As rp_mark_take(), for all series of the instrument. A series without a mark gets one from_start.
 */
int rp_view_take(struct rp_view *view, struct rp_instrument *instrument, struct rp_delta *delta);
/* Initialise a delta, with zeroed buckets for a histogram. Return: 0 or -ENOMEM. */
int rp_delta_init(struct rp_delta *delta, uint32_t kind);
void rp_delta_fini(struct rp_delta *delta);
double rp_delta_quantile(const struct rp_delta *delta, double quantile);
double rp_delta_mean(const struct rp_delta *delta);
double rp_delta_deviation(const struct rp_delta *delta);
double rp_delta_max(const struct rp_delta *delta);
double rp_delta_min(const struct rp_delta *delta);

#endif
