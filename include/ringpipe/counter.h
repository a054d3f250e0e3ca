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
	RP_COUNTER_SUM = 1,		/* an integer that only grows */
	RP_COUNTER_UPDOWN = 2,		/* an integer that grows and shrinks */
	RP_COUNTER_GAUGE = 3,		/* the last value set */
	RP_COUNTER_HISTOGRAM = 4,	/* a distribution of values */
	RP_COUNTER_OBSERVED_SUM = 5,	/* a total that only grows; read by a callback */
	RP_COUNTER_OBSERVED_UPDOWN = 6,	/* … a total that grows and shrinks */
	RP_COUNTER_OBSERVED_GAUGE = 7,	/* … a current value */
};

/* The most series of one counter, the one without tags included. */
#define RP_COUNTER_SERIES_MAX 2000u

/* Maximum relative error of a histogram's quantiles and deviation. */
#define RP_HISTOGRAM_ERROR (1.0 / 128)

/*
 * Declare a counter of a provider, in a file or in a header. An executable or shared object that
 * calls one of its functions registers the counter when it is loaded; dlclose unregisters it. A
 * file that calls none has no code and no data of it. `unit` and `display_name` are string literals
 * or NULL; a counter without a display name has its name as one in EventCounters. The
 * declarations make
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
 * Add to a SUM (by 0 or more) or an UPDOWN.
 * @by: the increment.
 *
 * Context: any thread, any signal handler. Does not wait, allocate or enter the kernel. No cache
 * line is shared with other processors that count.
 * Return: 0; -EINVAL for a counter of another kind.
 */
RP_PUBLIC int rp_counter_add(struct rp_counter *counter, int64_t by);

/*
 * Set a GAUGE.
 * @value: the new value.
 *
 * Context: as rp_counter_add().
 * Return: 0; -EINVAL for another kind or no number.
 */
RP_PUBLIC int rp_counter_set(struct rp_counter *counter, double value);

/*
 * Take one value into a HISTOGRAM.
 * @value: the value, in the unit of the counter.
 *
 * Context: as rp_counter_add().
 * Return: 0; -EINVAL for a counter of another kind, and a value that is negative or no number.
 */
RP_PUBLIC int rp_counter_record(struct rp_counter *counter, double value);

/*
 * Create a dynamic counter. The strings of `decl` are copied, and decl->provider is ignored. An
 * observed kind needs decl->observe, which runs only while a client or a reader observes the
 * counter:
 *	Context: ringpipe's counter thread, or the one that reads; no lock of ringpipe is held. One
 *	call at a time for each counter. It may do anything but destroy its own counter. No counter
 *	is published until it returns.
 *	Return: 0, or -errno, which clients get as an error.
 * In each call it reports its values with rp_observe().
 *
 * Context: any thread, not a signal handler; allocates.
 * Return: 0; -EINVAL for an empty or over-long name, an unknown kind, a callback where there must
 * be none or none where there must be one, metadata that is not `key:value` with commas between;
 * -EEXIST when a provider of that name has such a counter; -ENOMEM.
 */
RP_PUBLIC int rp_counter_create(struct rp_provider *provider, const struct rp_counter_decl *decl,
				struct rp_counter **ret_counter);

/*
 * Destroy a counter made by rp_counter_create(), and its series. No thread may use them any more.
 * Waits for the counter's callback in another thread. NULL is allowed.
 *
 * Context: any thread, not a signal handler.
 * Return: 0; -EDEADLK in its own callback; -EINVAL for a declared counter or a series.
 */
RP_PUBLIC int rp_counter_destroy(struct rp_counter *counter);

/*
 * Return the counter's series with these tags, and create it if there is none. The order of tags
 * does not matter. A series is used like the counter itself and lives as long. A program that keeps
 * the pointer pays nothing for tags.
 * @tags, @tag_count: the tags of the series, whose strings are copied.
 *
 * Context: any thread, not a signal handler; allocates where it makes one, or where the tags have
 * more than 250 characters.
 * Return: 0; -EINVAL for an observed counter, a series, no tags, an empty key or one twice;
 * -ENOSPC beyond RP_COUNTER_SERIES_MAX; -ENOMEM.
 */
RP_PUBLIC int rp_counter_series(struct rp_counter *counter, const struct rp_counter_tag *tags,
				size_t tag_count, struct rp_counter **ret_series);

/*
 * Add to the series with these tags, which the call creates if there is none.
 * @by: the increment.
 * @tags, @tag_count: the tags of the series, whose strings are copied.
 *
 * Context, Return: as rp_counter_series() and rp_counter_add().
 */
RP_PUBLIC int rp_counter_add_tagged(struct rp_counter *counter, int64_t by,
				    const struct rp_counter_tag *tags, size_t tag_count);

/*
 * Take a value into the series with these tags, which the call creates if there is none.
 * @value: the value, in the unit of the counter.
 * @tags, @tag_count: the tags of the series, whose strings are copied.
 *
 * Context, Return: as rp_counter_series() and rp_counter_record().
 */
RP_PUBLIC int rp_counter_record_tagged(struct rp_counter *counter, double value,
				       const struct rp_counter_tag *tags, size_t tag_count);

/*
 * Report one value of a series in a callback; the series without tags if tag_count is 0. The value
 * of an OBSERVED_SUM is the total so far, not the increment.
 * @value: the total or current value, in the unit of the counter.
 * @tags, @tag_count: the tags of the series, whose strings are copied.
 *
 * Context: in the callback.
 * Return: 0; -EINVAL for tags as of rp_counter_series() or no number; -ENOSPC beyond
 * RP_COUNTER_SERIES_MAX; -ENOMEM.
 */
RP_PUBLIC int rp_observe(struct rp_observation *observation, double value,
			 const struct rp_counter_tag *tags, size_t tag_count);

/* The values of a counter in an interval. Members that its kind does not have are 0. */
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

#define RP_COUNTER_READING_SIZE_V1 RP_SIZE_THROUGH_(struct rp_counter_reading, p99)
#define RP_COUNTER_READING_INIT RP_INIT_(struct rp_counter_reading)

/*
 * Read the values since the counter was created: of all series, or of the given one.
 *
 * Context: any thread, not a signal handler; allocates; runs an observed counter's callback.
 * Return: 0; -EINVAL: NULL, or the size of `ret_reading` is too small; -ENOMEM; or what the
 * callback returned.
 */
RP_PUBLIC int rp_counter_read(struct rp_counter *counter, struct rp_counter_reading *ret_reading);

/*
 * A window on a counter or a series, which has the changes in an interval. Windows are independent
 * of each other and of sessions.
 */
struct rp_counter_window;

/*
 * Open a window: its first reading has the changes since this call. Close it before the counter is
 * destroyed.
 *
 * Context: any thread, not a signal handler; allocates.
 * Return: 0; -EINVAL: NULL; -ENOMEM.
 */
RP_PUBLIC int rp_counter_window_open(struct rp_counter *counter,
				     struct rp_counter_window **ret_window);

/*
 * Read the changes since the previous reading of the window.
 *
 * Context: any thread, not a signal handler; allocates; runs an observed counter's callback.
 * Return: 0; -EINVAL: NULL, or the size of `ret_reading` is too small; -ENOMEM; or what the
 * callback returned.
 */
RP_PUBLIC int rp_counter_window_read(struct rp_counter_window *window,
				     struct rp_counter_reading *ret_reading);

/* Close a window. NULL is allowed. Context: any thread, not a signal handler. */
RP_PUBLIC void rp_counter_window_close(struct rp_counter_window *window);

RP_END_DECLS

/* One hidden struct for each object that uses the counter; the library adds them up. */
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
