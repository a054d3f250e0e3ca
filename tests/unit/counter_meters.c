/* SPDX-License-Identifier: MIT */
/* Sessions of System.Diagnostics.Metrics: sharing, limits, and the events that report errors. */
#include "core_support.h"
#include "hanging_callback.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "counter/number.h"

RP_PROVIDER(measured, "Test-Measured");
RP_COUNTER(measured, made, "things", "Things made");
RP_HISTOGRAM(measured, spread, "ms", NULL);
RP_HISTOGRAM(measured, width, NULL, NULL);

RP_PROVIDER(other, "Test-Other");
RP_GAUGE(other, heat, NULL, NULL);

#define FIELDS_MAX 12

/* An event of the meters, each value as text. */
struct word {
	char event[64];
	size_t count;
	char values[FIELDS_MAX][128];
	char names[FIELDS_MAX][32];
};

static const char *value_of(const struct word *word, const char *name)
{
	for (size_t i = 0; i < word->count; i++) {
		if (strcmp(word->names[i], name) == 0)
			return word->values[i];
	}
	cr_assert_fail("%s has no %s", word->event, name);
	return NULL;
}

static void take_apart(const struct rp_listener_event *event, struct word *word)
{
	struct rp_fields fields;
	struct rp_value value = RP_VALUE_INIT;
	int ret;

	memset(word, 0, sizeof(*word));
	snprintf(word->event, sizeof(word->event), "%s", event->name);
	rp_listener_get_fields(event, &fields);
	while ((ret = rp_fields_next(&fields, &value)) == 1) {
		char *text = word->values[word->count];

		cr_assert_lt(word->count, FIELDS_MAX);
		snprintf(word->names[word->count++], 32, "%s", value.name);
		if (value.type == RP_TYPE_STRING)
			rp_value_get_text(&value, text, 128);
		else if (value.type == RP_TYPE_F64)
			snprintf(text, 128, "%g", value.f64);
		else
			snprintf(text, 128, "%lld", (long long)value.i64);
	}
	cr_assert_eq(ret, 0);
}

/* The next event of that name whose first value, mostly the session, is `first`. */
static struct word next_of(struct rp_listener *listener, const char *event, const char *first)
{
	time_t limit = time(NULL) + PATIENCE_S;
	struct rp_listener_event got = RP_LISTENER_EVENT_INIT;
	struct word word;

	while (time(NULL) <= limit) {
		if (rp_listener_next(listener, &got, 100) != 1)
			continue;
		take_apart(&got, &word);
		if (strcmp(word.event, event) == 0 && strcmp(word.values[0], first) == 0)
			return word;
	}
	cr_assert_fail("%s of %s was never told", event, first);
	return word;
}

static struct word next_about(struct rp_listener *listener, const char *event, const char *session,
			      const char *instrument)
{
	struct word word;

	do {
		word = next_of(listener, event, session);
	} while (strcmp(value_of(&word, "instrumentName"), instrument) != 0);
	return word;
}

__attribute__((format(printf, 1, 2)))
static struct rp_listener *ask_for(const char *arguments, ...)
{
	char list[512] = "System.Diagnostics.Metrics:7:4:", *end = list + strlen(list);
	va_list values;

	va_start(values, arguments);
	vsnprintf(end, sizeof(list) - strlen(list), arguments, values);
	va_end(values);
	return listen_to(list);
}

#define FAST ";RefreshInterval=0.1"

/* Two clients share a session and disagree. Return: the error that the second client gets. */
static struct word disagreement(const char *first, const char *second)
{
	struct rp_listener *there = ask_for("SessionId=SHARED;ClientId=one;%s", first), *newcomer;
	struct word word;

	(void)next_of(there, "InitialInstrumentEnumerationComplete", "SHARED");
	newcomer = ask_for("SessionId=SHARED;ClientId=two;%s", second);
	word = next_of(newcomer, "MultipleSessionsConfiguredIncorrectlyError", "two");
	stop_listening(newcomer);
	stop_listening(there);
	cr_assert_eq(word.count, 7u);
	return word;
}

Test(counter_meters, clients_that_disagree_are_reported_what_was_expected)
{
	struct word word = disagreement("RefreshInterval=0.5;MaxTimeSeries=7;MaxHistograms=3",
					"RefreshInterval=0.25;MaxTimeSeries=8;MaxHistograms=4");

	cr_expect_str_eq(value_of(&word, "clientId"), "two");
	cr_expect_str_eq(value_of(&word, "expectedMaxHistograms"), "3");
	cr_expect_str_eq(value_of(&word, "actualMaxHistograms"), "4");
	cr_expect_str_eq(value_of(&word, "expectedMaxTimeSeries"), "7");
	cr_expect_str_eq(value_of(&word, "actualMaxTimeSeries"), "8");
	cr_expect_str_eq(value_of(&word, "expectedRefreshInterval"), "0.5");
	cr_expect_str_eq(value_of(&word, "actualRefreshInterval"), "0.25");
}

/* One differing limit suffices. For a limit that a client omits, the session's applies. */
Test(counter_meters, one_limit_that_differs_is_a_disagreement)
{
	static const char *const wrong[] = { "RefreshInterval=0.5", "MaxTimeSeries=8",
					     "MaxHistograms=4" };
	static const char *const differs[] = { "actualRefreshInterval", "actualMaxTimeSeries",
					       "actualMaxHistograms" };
	static const char *const values[] = { "0.5", "8", "4" };

	for (size_t i = 0; i < 3; i++) {
		struct word word = disagreement("RefreshInterval=0.25;MaxTimeSeries=7;"
						"MaxHistograms=3", wrong[i]);

		cr_expect_str_eq(value_of(&word, differs[i]), values[i]);
		for (size_t k = 0; k < 3; k++) {
			char expected[64];

			snprintf(expected, sizeof(expected), "expected%s", differs[k] + 6);
			if (k != i)
				cr_expect_str_eq(value_of(&word, differs[k]),
						 value_of(&word, expected));
		}
	}
}

/* A client that disagrees gets no values. The first client's values continue throughout. */
Test(counter_meters, client_that_disagrees_gets_nothing_and_disturbs_no_other)
{
	struct rp_listener *first = ask_for("SessionId=SHARED;ClientId=one;Metrics=Test-Measured"
					    FAST);
	struct rp_listener *odd, *agreeing;
	struct word word;

	(void)next_about(first, "CounterRateValuePublished", "SHARED", "made");
	odd = ask_for("SessionId=SHARED;ClientId=two;Metrics=Test-Other;RefreshInterval=3");
	(void)next_of(odd, "MultipleSessionsConfiguredIncorrectlyError", "two");
	agreeing = ask_for("SessionId=SHARED;ClientId=three" FAST);
	for (;;) {
		struct rp_listener_event event;

		expect_event(odd, &event);
		take_apart(&event, &word);
		if (strcmp(word.event, "InitialInstrumentEnumerationComplete") == 0)
			break;
		if (strcmp(word.event, "BeginInstrumentReporting") == 0)
			cr_expect_str_eq(value_of(&word, "meterName"), "Test-Measured");
	}
	stop_listening(odd);
	measured_made_add(3);
	do {
		word = next_about(first, "CounterRateValuePublished", "SHARED", "made");
	} while (strcmp(value_of(&word, "rate"), "3") != 0);
	stop_listening(agreeing);
	(void)next_about(first, "CounterRateValuePublished", "SHARED", "made");
	stop_listening(first);
}

/* The error names a client by its ClientId, so a client without one gets no error. */
Test(counter_meters, nameless_client_that_disagrees_is_not_reported)
{
	struct rp_listener *first = ask_for("SessionId=SHARED;ClientId=one;Metrics=Test-Measured"
					    FAST);
	struct rp_listener *nameless = ask_for("SessionId=SHARED;RefreshInterval=3");
	struct rp_listener *third;
	struct word word;

	third = ask_for("SessionId=SHARED;ClientId=three;RefreshInterval=4");
	do {
		struct rp_listener_event event;

		expect_event(nameless, &event);
		take_apart(&event, &word);
	} while (strcmp(word.event, "MultipleSessionsConfiguredIncorrectlyError") != 0);
	cr_expect_str_eq(word.values[0], "three");
	stop_listening(third);
	stop_listening(nameless);
	stop_listening(first);
}

Test(counter_meters, later_client_of_a_shared_session_is_reported_everything_again)
{
	struct rp_listener *first = ask_for("SessionId=SHARED;ClientId=one;Metrics=Test-Measured"
					    FAST);
	struct rp_listener *second;
	struct word begun, again;

	begun = next_about(first, "BeginInstrumentReporting", "SHARED", "made");
	(void)next_about(first, "CounterRateValuePublished", "SHARED", "made");
	second = ask_for("SessionId=SHARED;ClientId=two;Metrics=Test-Other" FAST);
	(void)next_of(second, "Version", "9");
	again = next_about(second, "BeginInstrumentReporting", "SHARED", "made");
	cr_expect_str_eq(value_of(&again, "instrumentId"), value_of(&begun, "instrumentId"));
	(void)next_about(second, "BeginInstrumentReporting", "SHARED", "heat");
	(void)next_of(second, "InitialInstrumentEnumerationComplete", "SHARED");
	/* Each client now gets values of both, and continues after the other's end. */
	measured_made_add(1);
	other_heat_set(20);
	(void)next_about(first, "GaugeValuePublished", "SHARED", "heat");
	(void)next_about(second, "CounterRateValuePublished", "SHARED", "made");
	stop_listening(first);
	(void)next_about(second, "GaugeValuePublished", "SHARED", "heat");
	stop_listening(second);
}

Test(counter_meters, sessions_of_their_own_run_side_by_side)
{
	struct rp_listener *first = ask_for("SessionId=a;Metrics=Test-Measured" FAST);
	struct rp_listener *second = ask_for("SessionId=b;Metrics=Test-Measured\\made;"
					     "RefreshInterval=0.15;MaxTimeSeries=1");
	double sum;

	(void)next_about(first, "CounterRateValuePublished", "a", "made");
	(void)next_about(second, "CounterRateValuePublished", "b", "made");
	measured_made_add(5);
	for (sum = 0; sum < 5;) {
		struct word word = next_about(first, "CounterRateValuePublished", "a", "made");

		sum += strtod(value_of(&word, "rate"), NULL);
	}
	cr_expect_float_eq(sum, 5, 0);
	for (sum = 0; sum < 5;) {
		struct word word = next_about(second, "CounterRateValuePublished", "b", "made");

		sum += strtod(value_of(&word, "rate"), NULL);
	}
	cr_expect_float_eq(sum, 5, 0);
	stop_listening(first);
	stop_listening(second);
}

/* The session compares the next client's arguments with its own effective limits. */
Test(counter_meters, wrong_and_oversized_limits_are_the_default_or_the_bound)
{
	static const struct {
		const char *arguments, *interval, *series, *histograms;
	} rows[] = {
		{ "RefreshInterval=x;MaxTimeSeries=x;MaxHistograms=x", "1", "1000", "20" },
		{ "RefreshInterval=;MaxTimeSeries=;MaxHistograms=", "1", "1000", "20" },
		{ "RefreshInterval=nan;MaxTimeSeries=nan;MaxHistograms=inf", "1", "1000", "20" },
		{ "RefreshInterval=-1;MaxTimeSeries=-1;MaxHistograms=-1", "0.1", "1000", "20" },
		{ "RefreshInterval=0;MaxTimeSeries=0;MaxHistograms=0", "0.1", "0", "0" },
		{ "RefreshInterval=1e300;MaxTimeSeries=1.5;MaxHistograms=0.5",
		  "86400", "1000", "20" },
		{ "RefreshInterval=1e5;MaxTimeSeries=2147483647;MaxHistograms=2147483648",
		  "86400", "2147483647", "20" },
		{ "RefreshInterval=0.5 s;MaxTimeSeries=4294967297;MaxHistograms=1e99",
		  "1", "1000", "20" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct word word = disagreement(rows[i].arguments, "RefreshInterval=77");

		cr_expect_str_eq(value_of(&word, "expectedRefreshInterval"), rows[i].interval,
				 "%s", rows[i].arguments);
		cr_expect_str_eq(value_of(&word, "expectedMaxTimeSeries"), rows[i].series,
				 "%s", rows[i].arguments);
		cr_expect_str_eq(value_of(&word, "expectedMaxHistograms"), rows[i].histograms,
				 "%s", rows[i].arguments);
	}
}

/* Counts the events of a name in `collections` collections of the session. */
static int count_in(struct rp_listener *listener, const char *event, const char *session,
		    int collections)
{
	struct rp_listener_event got;
	struct word word;
	int count = 0;

	while (collections > 0) {
		expect_event(listener, &got);
		take_apart(&got, &word);
		if (strcmp(word.values[0], session) != 0)
			continue;
		count += strcmp(word.event, event) == 0;
		collections -= strcmp(word.event, "CollectionStop") == 0;
	}
	return count;
}

Test(counter_meters, series_above_the_limit_are_left_out_and_reported_once)
{
	struct rp_counter_decl decl = { .size = sizeof(decl), .name = "split",
					.kind = RP_COUNTER_SUM };
	const struct rp_counter_tag tag = { "a", "b" }, surplus = { "a", "c" };
	struct rp_listener *listener;
	struct rp_counter *counter;

	cr_assert_eq(rp_counter_create(other_provider(), &decl, &counter), 0);
	listener = ask_for("SessionId=s;Metrics=Test-Other\\split;MaxTimeSeries=2" FAST);
	(void)next_about(listener, "CounterRateValuePublished", "s", "split");
	cr_assert_eq(rp_counter_add_tagged(counter, 1, &tag, 1), 0);
	cr_assert_eq(rp_counter_add_tagged(counter, 1, &surplus, 1), 0);
	(void)next_of(listener, "TimeSeriesLimitReached", "s");
	cr_expect_eq(count_in(listener, "TimeSeriesLimitReached", "s", 3), 0);
	/* The series without tags has no new value. */
	cr_expect_eq(count_in(listener, "CounterRateValuePublished", "s", 3), 3);
	stop_listening(listener);
	cr_assert_eq(rp_counter_destroy(counter), 0);
}

Test(counter_meters, histograms_above_the_limit_are_left_out_and_reported_once)
{
	struct rp_listener *listener = ask_for("SessionId=s;Metrics=Test-Measured;"
					       "MaxHistograms=1" FAST);

	/* Used, so that the program contains both histograms. */
	cr_assert_neq(measured_spread_counter(), measured_width_counter());
	(void)next_of(listener, "HistogramLimitReached", "s");
	cr_expect_eq(count_in(listener, "HistogramLimitReached", "s", 3), 0);
	cr_expect_eq(count_in(listener, "HistogramValuePublished", "s", 3), 3);
	cr_expect_eq(count_in(listener, "CounterRateValuePublished", "s", 3), 3);
	stop_listening(listener);
}

/* The next total of the series without tags. */
static void expect_total(struct rp_listener *listener, const char *session, const char *count,
			 const char *sum)
{
	struct word word = next_about(listener, "HistogramTotalPublished", session, "since");

	cr_expect_str_eq(value_of(&word, "count"), count);
	cr_expect_str_eq(value_of(&word, "sum"), sum);
}

#define WITH_TOTALS "System.Diagnostics.Metrics:0x800000000007:4:Metrics=Test-Other\\since;"

Test(counter_meters, totals_of_histograms_are_of_all_values_and_only_on_request)
{
	struct rp_counter_decl decl = { .size = sizeof(decl), .name = "since",
					.kind = RP_COUNTER_HISTOGRAM };
	struct rp_listener *listener, *other, *second;
	struct rp_counter *counter;

	cr_assert_eq(rp_counter_create(other_provider(), &decl, &counter), 0);
	cr_assert_eq(rp_counter_record(counter, 2.5), 0);
	cr_assert_eq(rp_counter_record(counter, 4), 0);
	other = ask_for("SessionId=o;Metrics=Test-Other\\since" FAST);
	listener = listen_to(WITH_TOTALS "SessionId=s" FAST);
	/* A total in each interval, with or without a new value. */
	expect_total(listener, "s", "2", "6.5");
	expect_total(listener, "s", "2", "6.5");
	cr_assert_eq(rp_counter_record(counter, 1), 0);
	second = listen_to(WITH_TOTALS "SessionId=t" FAST);
	expect_total(second, "t", "3", "7.5");
	cr_expect_eq(count_in(other, "HistogramTotalPublished", "o", 3), 0);
	stop_listening(listener);
	stop_listening(second);
	stop_listening(other);
	cr_assert_eq(rp_counter_destroy(counter), 0);
}

static int refuse(struct rp_observation *observation, void *data)
{
	(void)observation;
	return __atomic_load_n((int *)data, __ATOMIC_SEQ_CST);
}

Test(counter_meters, callback_that_fails_is_reported_in_each_collection)
{
	int error = -EIO;
	struct rp_counter_decl decl = { .size = sizeof(decl), .name = "asked", .observe = refuse,
					.data = &error, .kind = RP_COUNTER_OBSERVED_GAUGE };
	struct rp_listener *listener;
	struct rp_counter *counter;
	struct word word;

	cr_assert_eq(rp_counter_create(other_provider(), &decl, &counter), 0);
	listener = ask_for("SessionId=s;Metrics=Test-Other\\asked" FAST);
	word = next_of(listener, "ObservableInstrumentCallbackError", "s");
	cr_expect_str_eq(value_of(&word, "errorMessage"),
			 "Test-Other\\asked: Input/output error");
	(void)next_of(listener, "CollectionStop", "s");
	cr_expect_eq(count_in(listener, "ObservableInstrumentCallbackError", "s", 3), 3);
	__atomic_store_n(&error, -123456, __ATOMIC_SEQ_CST);
	do {
		word = next_of(listener, "ObservableInstrumentCallbackError", "s");
	} while (strstr(value_of(&word, "errorMessage"), "Input/output"));
	cr_expect_str_eq(value_of(&word, "errorMessage"), "Test-Other\\asked: unknown error");
	cr_assert_eq(rp_counter_destroy(counter), 0);
	(void)next_about(listener, "EndInstrumentReporting", "s", "asked");
	stop_listening(listener);
}

Test(counter_meters, instruments_that_come_and_go_are_reported)
{
	struct rp_counter_decl decl = { .size = sizeof(decl), .name = "passing", .unit = "u",
					.display_name = "It passes", .kind = RP_COUNTER_SUM };
	struct rp_listener *listener = ask_for("SessionId=s;Metrics=Test-Oth*" FAST);
	struct rp_counter *counter;
	struct word word;

	(void)next_of(listener, "InitialInstrumentEnumerationComplete", "s");
	cr_assert_eq(rp_counter_create(other_provider(), &decl, &counter), 0);
	rp_counter_add(counter, 4);
	word = next_about(listener, "InstrumentPublished", "s", "passing");
	cr_expect_str_eq(value_of(&word, "instrumentType"), "Counter`1");
	cr_expect_str_eq(value_of(&word, "description"), "It passes");
	(void)next_about(listener, "BeginInstrumentReporting", "s", "passing");
	do {
		word = next_about(listener, "CounterRateValuePublished", "s", "passing");
	} while (strcmp(value_of(&word, "rate"), "4") != 0);
	cr_expect_str_eq(value_of(&word, "unit"), "u");
	cr_assert_eq(rp_counter_destroy(counter), 0);
	(void)next_about(listener, "EndInstrumentReporting", "s", "passing");
	cr_expect_eq(count_in(listener, "CounterRateValuePublished", "s", 2), 0);
	stop_listening(listener);
}

/* Each of the lists except one selects exactly `made`. */
Test(counter_meters, instruments_are_chosen_by_meter_prefix_and_name)
{
	static const char *const lists[] = {
		"Test-Measured\\made", "Test-Measured\\mad", "\"Test-None,Test-Measured\\made\"",
		"Test-M*\\made", "\",,Test-Measured\\made,\"", "\"Test-Measure,*\\made\"",
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct rp_listener *listener = ask_for("SessionId=s;Metrics=%s" FAST, lists[i]);
		char begun[256] = "";
		struct rp_listener_event event;
		struct word word;

		do {
			expect_event(listener, &event);
			take_apart(&event, &word);
			if (strcmp(word.event, "BeginInstrumentReporting") == 0)
				strcat(strcat(begun, " "), value_of(&word, "instrumentName"));
		} while (strcmp(word.event, "InitialInstrumentEnumerationComplete") != 0);
		cr_expect_str_eq(begun, i == 1 ? "" : " made", "%s", lists[i]);
		stop_listening(listener);
	}
}

/* As printed by a .NET runtime. */
Test(counter_meters, numbers_have_the_digits_that_dotnet_gives_them)
{
	static const struct {
		double number;
		const char *text;
	} rows[] = {
		{ 0, "0" }, { -0.0, "-0" }, { 1, "1" }, { -12.5, "-12.5" }, { 0.1, "0.1" },
		{ 1200, "1200" }, { 0.00123, "0.00123" }, { 1e-4, "0.0001" }, { 1e-5, "1E-05" },
		{ -2.5e-7, "-2.5E-07" }, { 1.0 / 3, "0.3333333333333333" },
		{ 0.1 + 0.2, "0.30000000000000004" }, { 123456789012345, "123456789012345" },
		{ 1e15, "1000000000000000" }, { 1234567890123456.5, "1234567890123456.5" },
		{ 1e16, "10000000000000000" }, { 90071992547409936, "90071992547409940" },
		{ 1e17, "1E+17" }, { 123456789012345678, "1.2345678901234568E+17" },
		{ 1e100, "1E+100" }, { 1.7976931348623157e308, "1.7976931348623157E+308" },
		{ INFINITY, "Infinity" }, { -INFINITY, "-Infinity" }, { NAN, "NaN" },
	};
	char text[RP_NUMBER_MAX];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rp_number_print(rows[i].number, text);
		cr_expect_str_eq(text, rows[i].text);
	}
}

/*
 * The first client has closed, although the thread that hangs in the callback cannot notice that.
 */
Test(counter_meters, client_that_comes_as_another_goes_has_the_session_to_itself)
{
	struct hold hold = { 0, 0 };
	struct rp_counter_decl decl = { .size = sizeof(decl), .name = "hangs", .observe = hang,
					.data = &hold, .kind = RP_COUNTER_OBSERVED_GAUGE };
	struct rp_listener *first, *second;
	struct rp_counter *counter;

	cr_assert_eq(rp_counter_create(other_provider(), &decl, &counter), 0);
	first = ask_for("SessionId=SHARED;ClientId=one;Metrics=Test-Other\\hangs" FAST);
	wait_until(__atomic_load_n(&hold.inside, __ATOMIC_SEQ_CST));
	stop_listening(first);
	second = ask_for("SessionId=SHARED;ClientId=two;Metrics=Test-Measured;"
			 "RefreshInterval=0.2");
	__atomic_store_n(&hold.go, 1, __ATOMIC_SEQ_CST);
	(void)next_about(second, "CounterRateValuePublished", "SHARED", "made");
	stop_listening(second);
	cr_assert_eq(rp_counter_destroy(counter), 0);
}
