/* SPDX-License-Identifier: MIT */
/* Counters updated and read in the process, without a session. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(unit, "Unit-Counters");
RP_COUNTER(unit, total, "things", "Things so far");
RP_UPDOWN_COUNTER(unit, level, NULL, NULL);
RP_GAUGE(unit, heat, "C", NULL);
RP_HISTOGRAM(unit, spread, "ms", NULL);

static struct rp_counter_reading read_counter(struct rp_counter *counter)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	cr_assert_eq(rp_counter_read(counter, &reading), 0);
	return reading;
}

static struct rp_counter_reading read_window(struct rp_counter_window *window)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	cr_assert_eq(rp_counter_window_read(window, &reading), 0);
	return reading;
}

static struct rp_counter_window *open_window(struct rp_counter *counter)
{
	struct rp_counter_window *window;

	cr_assert_eq(rp_counter_window_open(counter, &window), 0);
	return window;
}

Test(counter, sums_are_what_was_added)
{
	cr_assert_eq(unit_total_add(5), 0);
	cr_assert_eq(unit_total_add(1ll << 40), 0);
	cr_assert_eq(unit_level_add(7), 0);
	cr_assert_eq(unit_level_add(-10), 0);
	cr_assert_float_eq(read_counter(unit_total_counter()).value, 5 + (double)(1ll << 40), 0);
	cr_assert_float_eq(read_counter(unit_level_counter()).value, -3, 0);
	cr_assert_eq(read_counter(unit_level_counter()).kind, RP_COUNTER_UPDOWN);
}

Test(counter, gauge_is_what_was_set_last)
{
	cr_assert(isnan(read_counter(unit_heat_counter()).value), "not set yet");
	cr_assert_eq(unit_heat_set(-1.5), 0);
	cr_assert_eq(unit_heat_set(0), 0);
	cr_assert_float_eq(read_counter(unit_heat_counter()).value, 0, 0);
	cr_assert_eq(unit_heat_set(NAN), -EINVAL);
	cr_assert_float_eq(read_counter(unit_heat_counter()).value, 0, 0);
}

Test(counter, calls_for_another_kind_are_refused)
{
	cr_assert_eq(rp_counter_add(unit_heat_counter(), 1), -EINVAL);
	cr_assert_eq(rp_counter_add(unit_spread_counter(), 1), -EINVAL);
	cr_assert_eq(rp_counter_set(unit_total_counter(), 1), -EINVAL);
	cr_assert_eq(rp_counter_record(unit_total_counter(), 1), -EINVAL);
	cr_assert_float_eq(read_counter(unit_total_counter()).value, 0, 0);
	cr_assert_eq(read_counter(unit_spread_counter()).count, 0);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The quantile computed from the values themselves. */
static double exact(const double *sorted, size_t count, double quantile)
{
	size_t rank = (size_t)ceil(quantile * (double)count);

	return sorted[rank ? rank - 1 : 0];
}

static void check_spread(double (*value)(unsigned int i), unsigned int count)
{
	struct rp_counter_window *window = open_window(unit_spread_counter());
	double *values = calloc(count, sizeof(*values)), sum = 0, squares = 0;
	struct rp_counter_reading reading;

	for (unsigned int i = 0; i < count; i++) {
		values[i] = value(i);
		sum += values[i];
		squares += values[i] * values[i];
		cr_assert_eq(unit_spread_record(values[i]), 0);
	}
	qsort(values, count, sizeof(*values), compare);
	reading = read_window(window);
	rp_counter_window_close(window);
	cr_expect_eq(reading.count, count);
	cr_expect_float_eq(reading.sum, sum, fabs(sum) * 1e-9);
	cr_expect_float_eq(reading.mean, sum / count, fabs(sum) * 1e-9);
	cr_expect_float_eq(reading.deviation,
			   sqrt(fmax(squares / count - pow(sum / count, 2), 0)),
			   sqrt(squares / count) * RP_HISTOGRAM_ERROR);
	cr_expect_float_eq(reading.min, values[0], 0);
	cr_expect_float_eq(reading.max, values[count - 1], 0);
	cr_expect_float_eq(reading.p50, exact(values, count, 0.5),
			   exact(values, count, 0.5) * RP_HISTOGRAM_ERROR);
	cr_expect_float_eq(reading.p95, exact(values, count, 0.95),
			   exact(values, count, 0.95) * RP_HISTOGRAM_ERROR);
	cr_expect_float_eq(reading.p99, exact(values, count, 0.99),
			   exact(values, count, 0.99) * RP_HISTOGRAM_ERROR);
	free(values);
}

static double evenly(unsigned int i)
{
	return i + 0.25;
}

static double over_decades(unsigned int i)
{
	return pow(10, (double)(i * 7919 % 1000) / 50 - 10);
}

static double all_the_same(unsigned int i)
{
	(void)i;
	return 3.7;
}

static double nothing(unsigned int i)
{
	(void)i;
	return 0;
}

Test(counter, quantiles_are_within_the_promised_error)
{
	check_spread(evenly, 2000);
}

Test(counter, quantiles_are_within_the_promised_error_over_decades)
{
	check_spread(over_decades, 1000);
}

Test(counter, equal_values_are_reported_as_they_are)
{
	check_spread(nothing, 3);
	check_spread(all_the_same, 10);
}

Test(counter, histogram_refuses_what_is_no_number_or_negative)
{
	cr_assert_eq(unit_spread_record(-1), -EINVAL);
	cr_assert_eq(unit_spread_record(NAN), -EINVAL);
	cr_assert_eq(unit_spread_record(INFINITY), -EINVAL);
	cr_assert_eq(unit_spread_record(-0.0), 0);
	cr_assert_eq(unit_spread_record(1e300), 0);
	cr_assert_eq(unit_spread_record(5e-324), 0);
	cr_assert_eq(read_counter(unit_spread_counter()).count, 3);
	cr_assert_float_eq(read_counter(unit_spread_counter()).max, 1e300, 0);
}

Test(counter, windows_do_not_disturb_one_another)
{
	struct rp_counter_window *first = open_window(unit_spread_counter()), *second;

	unit_spread_record(5);
	second = open_window(unit_spread_counter());
	unit_spread_record(2);
	unit_spread_record(3);
	cr_assert_float_eq(read_window(second).max, 3, 0);
	cr_assert_float_eq(read_window(first).max, 5, 0);
	cr_assert_float_eq(read_window(first).count, 0, 0);
	unit_spread_record(4);
	cr_assert_float_eq(read_window(first).min, 4, 0);
	cr_assert_float_eq(read_window(second).min, 4, 0);
	cr_assert_float_eq(read_counter(unit_spread_counter()).min, 2, 0);
	rp_counter_window_close(first);
	rp_counter_window_close(second);
	rp_counter_window_close(NULL);
}

Test(counter, window_reports_changes_and_rates)
{
	struct rp_counter_window *window;
	struct rp_counter_reading reading;

	unit_total_add(100);
	window = open_window(unit_total_counter());
	unit_total_add(7);
	reading = read_window(window);
	cr_assert_float_eq(reading.value, 107, 0);
	cr_assert_float_eq(reading.change, 7, 0);
	cr_assert_gt(reading.interval_s, 0);
	cr_assert_float_eq(reading.per_second, 7 / reading.interval_s, 1e-6 / reading.interval_s);
	cr_assert_float_eq(read_window(window).change, 0, 0);
	rp_counter_window_close(window);
}

Test(counter, series_are_found_by_tags_in_any_order_and_add_up)
{
	const struct rp_counter_tag one[] = { { "method", "GET" }, { "code", "200" } };
	const struct rp_counter_tag same[] = { { "code", "200" }, { "method", "GET" } };
	const struct rp_counter_tag other[] = { { "code", "404" } };
	struct rp_counter *a, *b, *c;

	cr_assert_eq(rp_counter_series(unit_total_counter(), one, 2, &a), 0);
	cr_assert_eq(rp_counter_series(unit_total_counter(), same, 2, &b), 0);
	cr_assert_eq(rp_counter_series(unit_total_counter(), other, 1, &c), 0);
	cr_assert_eq(a, b);
	cr_assert_neq(a, c);
	rp_counter_add(a, 1);
	rp_counter_add(c, 2);
	unit_total_add(4);
	cr_assert_eq(rp_counter_add_tagged(unit_total_counter(), 8, other, 1), 0);
	cr_assert_float_eq(read_counter(a).value, 1, 0);
	cr_assert_float_eq(read_counter(c).value, 10, 0);
	cr_assert_float_eq(read_counter(unit_total_counter()).value, 15, 0);
	cr_assert_eq(rp_counter_record_tagged(unit_spread_counter(), 2, one, 2), 0);
	cr_assert_eq(rp_counter_record_tagged(unit_spread_counter(), 6, other, 1), 0);
	cr_assert_float_eq(read_counter(unit_spread_counter()).mean, 4, 0);
}

Test(counter, bad_tags_are_refused)
{
	const struct rp_counter_tag twice[] = { { "a", "1" }, { "b", "2" }, { "a", "3" } };
	const struct rp_counter_tag empty[] = { { "", "1" } };
	const struct rp_counter_tag null[] = { { "a", NULL } };
	struct rp_counter *series = NULL;

	cr_assert_eq(rp_counter_series(unit_total_counter(), twice, 3, &series), -EINVAL);
	cr_assert_eq(rp_counter_series(unit_total_counter(), empty, 1, &series), -EINVAL);
	cr_assert_eq(rp_counter_series(unit_total_counter(), null, 1, &series), -EINVAL);
	cr_assert_eq(rp_counter_series(unit_total_counter(), twice, 0, &series), -EINVAL);
	cr_assert_eq(rp_counter_series(unit_total_counter(), twice, 1000, &series), -EINVAL);
	cr_assert_null(series);
	cr_assert_eq(rp_counter_series(unit_total_counter(), twice, 1, &series), 0);
	cr_assert_eq(rp_counter_series(series, twice + 1, 1, &series), -EINVAL);
}

/* Lengths around the one up to which the comparison needs no allocation. */
Test(counter, tags_of_any_length_find_their_series_again)
{
	char text[1000], again[1000];
	struct rp_counter_tag tag = { "key", text }, same = { "key", again };
	struct rp_counter *before = NULL, *series, *found;

	for (size_t length = 230; length < sizeof(text); length += length < 270 ? 1 : 91) {
		memset(text, 'x', length);
		text[length] = '\0';
		memcpy(again, text, sizeof(again));
		cr_assert_eq(rp_counter_series(unit_total_counter(), &tag, 1, &series), 0);
		cr_assert_neq(series, before);
		memset(text, 'y', length);
		cr_assert_eq(rp_counter_add_tagged(unit_total_counter(), 1, &same, 1), 0);
		cr_assert_eq(rp_counter_series(unit_total_counter(), &same, 1, &found), 0);
		cr_expect_eq(found, series, "%zu characters", length);
		cr_expect_float_eq(read_counter(series).value, 1, 0);
		before = series;
	}
}

Test(counter, series_are_limited)
{
	struct rp_counter *series;
	char text[16];
	struct rp_counter_tag tag = { "n", text };

	for (unsigned int i = 1; i < RP_COUNTER_SERIES_MAX; i++) {
		snprintf(text, sizeof(text), "%u", i);
		cr_assert_eq(rp_counter_series(unit_total_counter(), &tag, 1, &series), 0);
	}
	tag.value = "one more";
	cr_assert_eq(rp_counter_series(unit_total_counter(), &tag, 1, &series), -ENOSPC);
	tag.value = "7";
	cr_assert_eq(rp_counter_add_tagged(unit_total_counter(), 1, &tag, 1), 0);
}

/* One table holds all series: a destroyed counter must remove its own. */
Test(counter, series_of_the_same_tags_are_each_counters_own)
{
	const struct rp_counter_decl decl = {
		.size = sizeof(decl), .kind = RP_COUNTER_SUM, .name = "comes-and-goes",
	};
	const struct rp_counter_tag tag = { "room", "attic" };
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;
	struct rp_counter *kept, *series, *counter;
	struct rp_provider *provider;

	cr_assert_eq(rp_provider_create("Unit-Same-Tags", NULL, NULL, &provider), 0);
	cr_assert_eq(rp_counter_series(unit_total_counter(), &tag, 1, &kept), 0);
	for (int time = 0; time < 3; time++) {
		cr_assert_eq(rp_counter_create(provider, &decl, &counter), 0);
		cr_assert_eq(rp_counter_series(counter, &tag, 1, &series), 0);
		cr_assert_neq(series, kept);
		rp_counter_add(series, 5);
		cr_assert_eq(rp_counter_add_tagged(counter, 2, &tag, 1), 0);
		cr_assert_eq(rp_counter_read(series, &reading), 0);
		cr_expect_float_eq(reading.value, 7, 0);
		cr_assert_eq(rp_counter_destroy(counter), 0);
	}
	cr_assert_eq(rp_counter_series(unit_total_counter(), &tag, 1, &series), 0);
	cr_expect_eq(series, kept);
	cr_assert_eq(rp_counter_read(kept, &reading), 0);
	cr_expect_float_eq(reading.value, 0, 0);
	rp_provider_destroy(provider);
}

static int see(struct rp_observation *observation, void *data)
{
	const struct rp_counter_tag tag = { "room", "cellar" };
	const int *mode = data;

	cr_expect_eq(rp_observe(observation, NAN, NULL, 0), -EINVAL);
	if (*mode < 0)
		return *mode;
	rp_observe(observation, *mode, NULL, 0);
	return rp_observe(observation, 2 * *mode, &tag, 1);
}

static struct rp_counter *create(uint8_t kind, const char *name,
				 int (*observe)(struct rp_observation *, void *), void *data)
{
	struct rp_counter_decl decl = { .size = sizeof(decl), .kind = kind, .name = name,
					.observe = observe, .data = data };
	struct rp_counter *counter;

	cr_assert_eq(rp_counter_create(unit_provider(), &decl, &counter), 0);
	return counter;
}

Test(counter, observed_counters_ask_their_callback)
{
	int mode = 10;
	struct rp_counter *sum = create(RP_COUNTER_OBSERVED_SUM, "seen", see, &mode);
	struct rp_counter *gauge = create(RP_COUNTER_OBSERVED_GAUGE, "now", see, &mode);
	struct rp_counter_window *window = open_window(sum);
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	cr_assert_float_eq(read_counter(sum).value, 30, 0);
	cr_assert_float_eq(read_counter(gauge).value, 10, 0);
	mode = 12;
	cr_assert_float_eq(read_window(window).change, 6, 0);
	mode = -EIO;
	cr_assert_eq(rp_counter_read(sum, &reading), -EIO);
	cr_assert_eq(rp_counter_window_read(window, &reading), -EIO);
	mode = 13;
	cr_assert_float_eq(read_window(window).change, 3, 0);
	rp_counter_window_close(window);
	cr_assert_eq(rp_counter_destroy(sum), 0);
	cr_assert_eq(rp_counter_destroy(gauge), 0);
}

static int destroy_itself(struct rp_observation *observation, void *data)
{
	cr_expect_eq(rp_counter_destroy(*(struct rp_counter **)data), -EDEADLK);
	return rp_observe(observation, 1, NULL, 0);
}

Test(counter, callback_may_not_destroy_its_counter)
{
	static struct rp_counter *counter;

	counter = create(RP_COUNTER_OBSERVED_GAUGE, "self", destroy_itself, &counter);
	cr_assert_float_eq(read_counter(counter).value, 1, 0);
	cr_assert_eq(rp_counter_destroy(counter), 0);
}

Test(counter, wrong_declarations_are_refused)
{
	static char long_name[RP_NAME_MAX + 2];
	struct rp_counter_decl good = { .size = sizeof(good), .kind = RP_COUNTER_SUM,
					.name = "made" };
	struct rp_counter_decl bad;
	struct rp_counter *counter = NULL, *again;

	memset(long_name, 'x', sizeof(long_name) - 1);
#define REFUSED(member, value) \
	bad = good; \
	bad.member = value; \
	cr_expect_eq(rp_counter_create(unit_provider(), &bad, &counter), -EINVAL, #member)
	REFUSED(size, 8);
	REFUSED(name, "");
	REFUSED(name, NULL);
	REFUSED(name, long_name);
	REFUSED(unit, "\xff");
	REFUSED(kind, 0);
	REFUSED(kind, 8);
	REFUSED(kind, RP_COUNTER_OBSERVED_SUM);
	REFUSED(observe, see);
	REFUSED(metadata, "no colon");
	REFUSED(metadata, "a:b,c");
	REFUSED(reserved2, 1);
	cr_expect_eq(rp_counter_create(NULL, &good, &counter), -EINVAL);
	cr_assert_null(counter);
	good.metadata = "a:b,c:d";
	cr_assert_eq(rp_counter_create(unit_provider(), &good, &counter), 0);
	cr_assert_eq(rp_counter_create(unit_provider(), &good, &again), -EEXIST);
	good.name = "total";
	cr_assert_eq(rp_counter_create(unit_provider(), &good, &again), -EEXIST);
	cr_assert_eq(rp_counter_destroy(unit_total_counter()), -EINVAL);
	cr_assert_eq(rp_counter_destroy(counter), 0);
	cr_assert_eq(rp_counter_destroy(NULL), 0);
}

Test(counter, cells_are_zero_when_used_again)
{
	struct rp_counter *counter = create(RP_COUNTER_SUM, "first", NULL, NULL);

	rp_counter_add(counter, 99);
	cr_assert_eq(rp_counter_destroy(counter), 0);
	counter = create(RP_COUNTER_SUM, "second", NULL, NULL);
	cr_assert_float_eq(read_counter(counter).value, 0, 0);
	cr_assert_eq(rp_counter_destroy(counter), 0);
}
