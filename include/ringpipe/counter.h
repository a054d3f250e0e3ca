/* SPDX-License-Identifier: MIT */
/*
 * Counters: figures that a program keeps all the time and a client looks at now and then.
 *
 *	RP_PROVIDER(shop, "Shop-Orders");
 *	RP_COUNTER(shop, orders_placed, "orders", "Orders placed");
 *	RP_HISTOGRAM(shop, order_time, "ms", "Time to place an order");
 *
 *	shop_orders_placed_add(1);
 *	shop_order_time_record(1.5);
 *
 * A counter is seen in two ways, both of .NET's: as EventCounters of its provider, and as an
 * instrument of the meter that has the provider's name (System.Diagnostics.Metrics). It can be
 * read in the process, too, whether a session runs or not.
 *
 *	kind			as EventCounters		as an instrument
 *	SUM			IncrementingEventCounter	Counter
 *	UPDOWN			PollingCounter			UpDownCounter
 *	GAUGE			PollingCounter			Gauge
 *	HISTOGRAM		EventCounter			Histogram
 *	OBSERVED_SUM		IncrementingPollingCounter	ObservableCounter
 *	OBSERVED_UPDOWN		PollingCounter			ObservableUpDownCounter
 *	OBSERVED_GAUGE		PollingCounter			ObservableGauge
 *
 * Tags split a counter into series, one for each set of tags. Instruments show series;
 * EventCounters show their sum (of gauges, the one without tags).
 */
#ifndef RINGPIPE_COUNTER_H
#define RINGPIPE_COUNTER_H

#include <ringpipe/detail/declare.h>
#include <ringpipe/provider.h>
#include <ringpipe/types.h>

enum rp_counter_kind {
	RP_COUNTER_SUM = 1,		/* of whole numbers; only ever goes up */
	RP_COUNTER_UPDOWN = 2,		/* of whole numbers; goes up and down */
	RP_COUNTER_GAUGE = 3,		/* what was set last */
	RP_COUNTER_HISTOGRAM = 4,	/* how values are spread */
	RP_COUNTER_OBSERVED_SUM = 5,	/* asked for when somebody looks: what only goes up */
	RP_COUNTER_OBSERVED_UPDOWN = 6,	/* … what goes up and down */
	RP_COUNTER_OBSERVED_GAUGE = 7,	/* … what is so now */
};

/* The most series of one counter, the one without tags included. */
#define RP_COUNTER_SERIES_MAX 2000u

/* Quantiles and deviation of a histogram: values may be taken for others by this part of them. */
#define RP_HISTOGRAM_ERROR (1.0 / 128)

/*
 * Declare a counter of a provider, in a file or in a header, registered when the object is loaded,
 * taken back by dlclose. `unit` and `display_name` are strings or NULL. They make
 *	int <provider>_<counter>_add(int64_t by)	for RP_COUNTER (SUM), RP_UPDOWN_COUNTER
 *	int <provider>_<counter>_set(double value)	for RP_GAUGE
 *	int <provider>_<counter>_record(double value)	for RP_HISTOGRAM
 *	struct rp_counter *<provider>_<counter>_counter(void)
 * Observed counters need a callback: rp_counter_create().
 */
#define RP_COUNTER(provider, counter, unit, display_name) \
	RP_COUNTER_EMIT_(provider, counter, RP_COUNTER_SUM, add, int64_t, unit, display_name)
#define RP_UPDOWN_COUNTER(provider, counter, unit, display_name) \
	RP_COUNTER_EMIT_(provider, counter, RP_COUNTER_UPDOWN, add, int64_t, unit, display_name)
#define RP_GAUGE(provider, counter, unit, display_name) \
	RP_COUNTER_EMIT_(provider, counter, RP_COUNTER_GAUGE, set, double, unit, display_name)
#define RP_HISTOGRAM(provider, counter, unit, display_name) \
	RP_COUNTER_EMIT_(provider, counter, RP_COUNTER_HISTOGRAM, record, double, unit, \
			 display_name)

RP_BEGIN_DECLS

struct rp_counter_tag {
	const char *key;
	const char *value;
};

/*
 * Adds to a SUM (by 0 or more) or an UPDOWN.
 *
 * Context: any thread, any signal handler. Does not wait, allocate or enter the kernel. No cache
 * line is shared with other processors that count.
 * Return: 0; -EINVAL for a counter of another kind.
 */
RP_PUBLIC int rp_counter_add(struct rp_counter *counter, int64_t by);

/* Sets a GAUGE. Context: as rp_counter_add(). Return: 0; -EINVAL for another kind or no number. */
RP_PUBLIC int rp_counter_set(struct rp_counter *counter, double value);

/*
 * Takes one value into a HISTOGRAM.
 *
 * Context: as rp_counter_add().
 * Return: 0; -EINVAL for a counter of another kind, and a value that is negative or no number.
 */
RP_PUBLIC int rp_counter_record(struct rp_counter *counter, double value);

/*
 * Makes a counter at run time. The strings of `decl` are copied; decl->provider is not looked at.
 * An observed kind needs decl->observe, which is run while somebody looks, and only then:
 *	Context: ringpipe's counter thread, or the one that reads; no lock of ringpipe is held. One
 *	call at a time for each counter. May do anything but destroy its own counter; as long as it
 *	does not return, no counter is published.
 *	Return: 0, or -errno, which clients are told.
 * In each call it tells what it sees, with rp_observe().
 *
 * Context: any thread, not a signal handler; allocates.
 * Return: 0; -EINVAL for an empty or over-long name, an unknown kind, a callback where there must
 * be none or none where there must be one, metadata that is not `key:value` with commas between;
 * -EEXIST when a provider of that name has such a counter; -ENOMEM.
 */
RP_PUBLIC int rp_counter_create(struct rp_provider *provider, const struct rp_counter_decl *decl,
				struct rp_counter **ret_counter);

/*
 * Takes a counter made by rp_counter_create() back, and its series. No thread may use them any
 * more. Waits for its callback in another thread. NULL is fine.
 *
 * Context: any thread, not a signal handler.
 * Return: 0; -EDEADLK in its own callback, -EINVAL for a declared counter or a series.
 */
RP_PUBLIC int rp_counter_destroy(struct rp_counter *counter);

/*
 * The counter's series of these tags, made if there is none; the order of tags is of no account. It
 * is counted on like the counter itself and lives as long: keep it, and tags cost nothing.
 *
 * Context: any thread, not a signal handler; allocates where it makes one, or where the tags have
 * more than 250 characters.
 * Return: 0; -EINVAL for an observed counter, a series, no tags, an empty key or one twice;
 * -ENOSPC beyond RP_COUNTER_SERIES_MAX; -ENOMEM.
 */
RP_PUBLIC int rp_counter_series(struct rp_counter *counter, const struct rp_counter_tag *tags,
				size_t tag_count, struct rp_counter **ret_series);

/* Finds or makes the series, then counts there. Context, Return: as both calls. */
RP_PUBLIC int rp_counter_add_tagged(struct rp_counter *counter, int64_t by,
				    const struct rp_counter_tag *tags, size_t tag_count);
RP_PUBLIC int rp_counter_record_tagged(struct rp_counter *counter, double value,
				       const struct rp_counter_tag *tags, size_t tag_count);

/*
 * What a callback sees: one value for each series, without tags when tag_count is 0. For
 * OBSERVED_SUM the total so far, not what was added.
 *
 * Context: in the callback. Return: 0; -EINVAL for tags as above or no number; -ENOSPC; -ENOMEM.
 */
RP_PUBLIC int rp_observe(struct rp_observation *observation, double value,
			 const struct rp_counter_tag *tags, size_t tag_count);

/* What a counter did in an interval. What its kind does not know is 0. */
struct rp_counter_reading {
	uint32_t size;
	uint32_t kind;			/* enum rp_counter_kind */
	double interval_s;
	double value;			/* sums: the total so far; gauges: the last, or NaN */
	double change;			/* sums: by how much it went up or down */
	double per_second;
	uint64_t count;			/* histograms: values recorded */
	double sum;
	double mean, deviation;		/* of the population */
	double min, max;
	double p50, p95, p99;
};

/*
 * Everything since the counter was made: of all series, or of the one given.
 *
 * Set ret_reading->size before the call; it is filled up to that.
 * Context: any thread, not a signal handler; allocates; runs an observed counter's callback.
 * Return: 0; -EINVAL; -ENOMEM; or what the callback returned.
 */
RP_PUBLIC int rp_counter_read(struct rp_counter *counter, struct rp_counter_reading *ret_reading);

/*
 * A window on a counter or a series: each reading is what happened since the last one, and the
 * first since the window was opened. Any number of windows, and sessions beside them, do not
 * disturb each other. Close it before the counter goes.
 *
 * Context: any thread, not a signal handler; allocates.
 * Return: 0; -EINVAL; -ENOMEM; reading also what the callback returned.
 */
struct rp_counter_window;
RP_PUBLIC int rp_counter_window_open(struct rp_counter *counter,
				     struct rp_counter_window **ret_window);
RP_PUBLIC int rp_counter_window_read(struct rp_counter_window *window,
				     struct rp_counter_reading *ret_reading);
RP_PUBLIC void rp_counter_window_close(struct rp_counter_window *window);

RP_END_DECLS

/* One hidden struct for each object that includes the line; the library adds them up. */
#define RP_COUNTER_EMIT_(provider, counter, kind, verb, type, unit, display_name) \
	static const struct rp_counter_decl provider##_##counter##_decl_ = { \
		sizeof(struct rp_counter_decl), kind, { 0, 0, 0 }, &provider##_provider_, \
		#counter, unit, display_name, RP_NULL_, RP_NULL_, RP_NULL_, 0, 0 }; \
	RP_BEGIN_DECLS \
	extern struct rp_counter provider##_##counter##_counter_; \
	__attribute__((weak, visibility("hidden"))) \
	struct rp_counter provider##_##counter##_counter_ = { \
		RP_NULL_, kind, 0, 0, &provider##_##counter##_decl_, RP_NULL_ }; \
	RP_END_DECLS \
	static struct rp_counter *provider##_##counter##_entry_ RP_TABLE_ENTRY_("rp_counters") = \
		&provider##_##counter##_counter_; \
	static inline __attribute__((unused)) struct rp_counter * \
	provider##_##counter##_counter(void) \
	{ \
		return &provider##_##counter##_counter_; \
	} \
	static inline __attribute__((unused)) int provider##_##counter##_##verb(type value) \
	{ \
		return rp_counter_##verb(&provider##_##counter##_counter_, value); \
	} \
	RP_SEMICOLON_

#endif
