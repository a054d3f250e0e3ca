/* SPDX-License-Identifier: MIT */
/*
 * Counters: values that a program updates all the time and that clients read at intervals.
 *
 *	RP_PROVIDER(shop, "Shop-Orders");
 *	RP_COUNTER(shop, orders_placed, "orders", "Orders placed");
 *	RP_HISTOGRAM(shop, order_time, "ms", "Time to place an order");
 *
 *	shop_orders_placed_add(1);
 *	shop_order_time_record(1.5);
 *
 * Clients see a counter in two forms, both defined by .NET: as EventCounters of its provider, and
 * as an instrument of the meter that has the provider's name (System.Diagnostics.Metrics). The
 * process itself can also read a counter, whether a session runs or not.
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
 * Tags split a counter into series, one for each set of tags. Instruments show each series.
 * EventCounters show the sum of the series, or for a gauge the series without tags.
 */
#ifndef RINGPIPE_COUNTER_H
#define RINGPIPE_COUNTER_H

#include <ringpipe/detail/declare.h>
#include <ringpipe/provider.h>
#include <ringpipe/types.h>

enum rp_counter_kind {
	RP_COUNTER_SUM = 1,		/* an integer that only grows */
	RP_COUNTER_UPDOWN = 2,		/* an integer that grows and shrinks */
	RP_COUNTER_GAUGE = 3,		/* the last value set */
	RP_COUNTER_HISTOGRAM = 4,	/* a distribution of values */
	RP_COUNTER_OBSERVED_SUM = 5,	/* a total that only grows; a callback reports it */
	RP_COUNTER_OBSERVED_UPDOWN = 6,	/* the same for a total that grows and shrinks */
	RP_COUNTER_OBSERVED_GAUGE = 7,	/* the same for a current value */
};

/* Maximum number of series of one counter, including the one without tags. */
#define RP_COUNTER_SERIES_MAX 2000u

/* Maximum relative error of a histogram's quantiles and standard deviation. */
#define RP_HISTOGRAM_ERROR (1.0 / 128)

/*
 * Declare a counter of a provider, in a source file or in a header. An executable or shared object
 * that calls one of the counter's functions registers the counter when the object is loaded;
 * dlclose(3) unregisters it. A source file that calls none of them contains no code and no data of
 * the counter. `unit` and `display_name` are string literals or NULL. Without a display name,
 * EventCounters show the counter's name instead. The declarations define
 *	int <provider>_<counter>_add(int64_t by)	for RP_COUNTER (SUM), RP_UPDOWN_COUNTER
 *	int <provider>_<counter>_set(double value)	for RP_GAUGE
 *	int <provider>_<counter>_record(double value)	for RP_HISTOGRAM
 *	struct rp_counter *<provider>_<counter>_counter(void)
 * Observed counters need a callback, so create them with rp_counter_create().
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
 * Add `by` to a SUM or an UPDOWN. For a SUM, `by` is 0 or more.
 *
 * Context: any thread, any signal handler. Does not wait, allocate or enter the kernel. Processors
 * that count do not share a cache line.
 * Return: 0; -EINVAL if the counter is of another kind.
 */
RP_PUBLIC int rp_counter_add(struct rp_counter *counter, int64_t by);

/*
 * Set a GAUGE.
 * Context: as rp_counter_add().
 * Return: 0; -EINVAL if the counter is of another kind, or the value is NaN.
 */
RP_PUBLIC int rp_counter_set(struct rp_counter *counter, double value);

/*
 * Record one value in a HISTOGRAM.
 *
 * Context: as rp_counter_add().
 * Return: 0; -EINVAL if the counter is of another kind, or the value is negative, infinite or NaN.
 */
RP_PUBLIC int rp_counter_record(struct rp_counter *counter, double value);

/*
 * Create a dynamic counter. The function copies the strings of `decl` and ignores decl->provider.
 * An observed kind needs the callback decl->observe, which runs only while a client or a reader
 * observes the counter. In each call, the callback reports its values with rp_observe(). Its
 * contract is:
 *	Context: ringpipe's counter thread, or the thread that reads the counter. No lock of
 *	ringpipe is held. The calls for one counter never overlap. The callback may do anything
 *	except destroy its own counter. No counter is published until the callback returns.
 *	Return: 0, or -errno, which clients receive as an error.
 *
 * Context: any thread, not a signal handler; allocates.
 * Return: 0; -EINVAL if the name is empty or too long, the kind is unknown, an observed kind has no
 * callback, another kind has one, or the metadata is not a comma-separated list of `key:value`;
 * -EEXIST if the provider already has a counter of that name; -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_counter_create(struct rp_provider *provider, const struct rp_counter_decl *decl,
				struct rp_counter **ret_counter);

/*
 * Destroy a counter that rp_counter_create() created, and its series. No thread may use them any
 * more. If another thread is running the counter's callback, the function waits for it. NULL is
 * allowed.
 *
 * Context: any thread, not a signal handler.
 * Return: 0; -EDEADLK if called by the counter's own callback; -EINVAL if the counter is declared,
 * or is a series.
 */
RP_PUBLIC int rp_counter_destroy(struct rp_counter *counter);

/*
 * Find the counter's series with these tags, or create it. The order of the tags does not matter.
 * The caller uses a series like the counter itself, and the series lives as long as the counter. A
 * program that keeps the returned pointer has no further cost for tags.
 *
 * Context: any thread, not a signal handler. Allocates if it creates the series, or if the tags
 * have more than 250 characters.
 * Return: 0; -EINVAL if the counter is observed or is itself a series, there are no tags, or a key
 * is empty or occurs twice; -ENOSPC if the counter has RP_COUNTER_SERIES_MAX series; -ENOMEM if an
 * allocation fails.
 */
RP_PUBLIC int rp_counter_series(struct rp_counter *counter, const struct rp_counter_tag *tags,
				size_t tag_count, struct rp_counter **ret_series);

/*
 * Add to the series with these tags, and create the series if it does not exist.
 *
 * Context, Return: as rp_counter_series() and rp_counter_add().
 */
RP_PUBLIC int rp_counter_add_tagged(struct rp_counter *counter, int64_t by,
				    const struct rp_counter_tag *tags, size_t tag_count);

/*
 * Record a value in the series with these tags, and create the series if it does not exist.
 *
 * Context, Return: as rp_counter_series() and rp_counter_record().
 */
RP_PUBLIC int rp_counter_record_tagged(struct rp_counter *counter, double value,
				       const struct rp_counter_tag *tags, size_t tag_count);

/*
 * Report one value of a series from a counter's callback. With a tag_count of 0, the value belongs
 * to the series without tags. The value of an OBSERVED_SUM is the total so far, not the increment.
 *
 * Context: in the callback.
 * Return: 0; -EINVAL if the value is infinite or NaN, or a key is empty or occurs twice; -ENOSPC if
 * the counter has RP_COUNTER_SERIES_MAX series; -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_observe(struct rp_observation *observation, double value,
			 const struct rp_counter_tag *tags, size_t tag_count);

/* The values of a counter in an interval. Members that do not apply to the counter's kind are 0. */
struct rp_counter_reading {
	uint32_t size;
	uint32_t kind;			/* enum rp_counter_kind */
	double interval_s;
	double value;			/* sums: the total so far; gauges: last value, or NaN */
	double change;			/* sums: the change in the interval, up or down */
	double per_second;
	uint64_t count;			/* histograms: values recorded */
	double sum;
	double mean, deviation;		/* deviation: of the population, not of a sample */
	double min, max;
	double p50, p95, p99;
};

#define RP_COUNTER_READING_SIZE_V1 RP_SIZE_THROUGH_(struct rp_counter_reading, p99)
#define RP_COUNTER_READING_INIT RP_INIT_(struct rp_counter_reading)

/*
 * Read the values since the counter was created. For a counter, the reading covers all of its
 * series; for a series, only that series.
 *
 * Context: any thread, not a signal handler; allocates; runs an observed counter's callback.
 * Return: 0; -EINVAL if a pointer is NULL or the size of `ret_reading` is too small; -ENOMEM if an
 * allocation fails; or the error that the callback returned.
 */
RP_PUBLIC int rp_counter_read(struct rp_counter *counter, struct rp_counter_reading *ret_reading);

/*
 * A window reports how a counter or a series changed between two readings. Windows are independent
 * of each other and of sessions.
 */
struct rp_counter_window;

/*
 * Open a window. Its first reading reports the changes since this call. Close the window before the
 * counter is destroyed.
 *
 * Context: any thread, not a signal handler; allocates.
 * Return: 0; -EINVAL if a pointer is NULL; -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_counter_window_open(struct rp_counter *counter,
				     struct rp_counter_window **ret_window);

/*
 * Read the changes since the previous reading of the window.
 *
 * Context: any thread, not a signal handler; allocates; runs an observed counter's callback.
 * Return: 0; -EINVAL if a pointer is NULL or the size of `ret_reading` is too small; -ENOMEM if an
 * allocation fails; or the error that the callback returned.
 */
RP_PUBLIC int rp_counter_window_read(struct rp_counter_window *window,
				     struct rp_counter_reading *ret_reading);

/* Close a window. NULL is allowed. Context: any thread, not a signal handler. */
RP_PUBLIC void rp_counter_window_close(struct rp_counter_window *window);

RP_END_DECLS

/*
 * Each executable or shared object that uses the counter has one hidden struct. The library adds
 * the values of all of them.
 */
#define RP_COUNTER_EMIT_(provider, counter, kind, verb, type, unit, display_name) \
	RP_BEGIN_DECLS \
	extern struct rp_counter provider##_##counter##_counter_ \
		__attribute__((visibility("hidden"))); \
	RP_END_DECLS \
	RP_INLINE_ struct rp_counter *provider##_##counter##_counter(void) \
	{ \
		provider##_provider_data_(); \
		RP_COUNTER_DATA_(#provider "_" #counter "_counter_", kind, provider##_provider_, \
				 #counter, unit, display_name); \
		return &provider##_##counter##_counter_; \
	} \
	RP_INLINE_ int provider##_##counter##_##verb(type value) \
	{ \
		return rp_counter_##verb(provider##_##counter##_counter(), value); \
	} \
	RP_SEMICOLON_

#endif
