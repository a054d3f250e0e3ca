/* SPDX-License-Identifier: MIT */
#include "tools/trace/counter_sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUANTILE_STEP 1e-5

/* Events of System.Diagnostics.Metrics, by their ids in MetricsEventSource. */
enum metrics_event {
	COUNTER_RATE = 4,
	GAUGE_VALUE = 5,
	HISTOGRAM_VALUE = 6,
	INSTRUMENT_BEGIN = 7,
	SESSION_ERROR = 9,
	ENUMERATED = 10,
	SERIES_LIMIT = 12,
	HISTOGRAM_LIMIT = 13,
	CALLBACK_ERROR = 14,
	OTHER_SESSION = 15,
	UPDOWN_VALUE = 16,
	HISTOGRAM_TOTAL = 1000,		/* ringpipe's addition */
};

static bool take_text(struct rp_fields *fields, char *text, size_t space)
{
	struct rp_value value = RP_VALUE_INIT;

	if (rp_fields_next(fields, &value) != 1)
		return false;
	rp_value_get_text(&value, text, space);
	return true;
}

/* Reads a number written as text. An empty or invalid text becomes NaN. */
static bool take_number(struct rp_fields *fields, double *ret_number)
{
	char text[64], *end;

	if (!take_text(fields, text, sizeof(text)))
		return false;
	*ret_number = strtod(text, &end);
	if (end == text || *end)
		*ret_number = NAN;
	return true;
}

/* Parses quantiles such as "0.5=1;0.95=2.5". */
static void parse_quantiles(const char *text, struct rp_counter_sample *sample)
{
	double last = -1;

	sample->quantile_count = 0;
	while (*text && sample->quantile_count < RP_COUNTER_QUANTILES_MAX) {
		struct rp_counter_quantile quantile;
		char *end;

		quantile.at = strtod(text, &end);
		if (end == text || *end != '=' || quantile.at < 0)
			return;
		text = end + 1;
		quantile.value = strtod(text, &end);
		if (end == text)
			return;
		/*
		 * Quantiles must rise; the step accepts those that differ only beyond the printed
		 * digits.
		 */
		if (quantile.at > last + QUANTILE_STEP && quantile.at <= 1) {
			sample->quantiles[sample->quantile_count++] = quantile;
			last = quantile.at;
		}
		text = *end == ';' ? end + 1 : end;
	}
}

static bool take_total(struct rp_fields *fields, struct rp_counter_sample *sample)
{
	struct rp_value count = RP_VALUE_INIT, sum = RP_VALUE_INIT;

	if (rp_fields_next(fields, &count) != 1 || rp_fields_next(fields, &sum) != 1)
		return false;
	sample->form = RP_COUNTER_SPREAD;
	sample->is_total = true;
	sample->count = (uint64_t)count.i64;
	sample->sum = sum.f64;
	return true;
}

static bool take_spread(struct rp_fields *fields, struct rp_counter_sample *sample)
{
	struct rp_value count = RP_VALUE_INIT, sum = RP_VALUE_INIT;
	char quantiles[512];

	if (!take_text(fields, quantiles, sizeof(quantiles)) ||
	    rp_fields_next(fields, &count) != 1 || rp_fields_next(fields, &sum) != 1)
		return false;
	parse_quantiles(quantiles, sample);
	sample->form = RP_COUNTER_SPREAD;
	sample->count = count.i64 < 0 ? 0 : (uint64_t)count.i64;
	sample->sum = sum.f64;
	return true;
}

static bool take_values(struct rp_fields *fields, uint32_t id, struct rp_counter_sample *sample)
{
	double rate = NAN, value;

	if (id == HISTOGRAM_TOTAL)
		return take_total(fields, sample);
	if (id == HISTOGRAM_VALUE)
		return take_spread(fields, sample);
	if (id != GAUGE_VALUE && !take_number(fields, &rate))
		return false;
	/* The first version of the event has no value and ends with the rate. */
	if (!take_number(fields, &value))
		value = NAN;
	sample->form = id == COUNTER_RATE ? RP_COUNTER_RATE : RP_COUNTER_VALUE;
	sample->value = id == COUNTER_RATE ? rate : value;
	sample->total = value;
	return !isnan(sample->value);
}

static enum rp_counter_word decode_error(struct rp_fields *fields, uint32_t id,
					 struct rp_counter_sample *sample)
{
	const char *what = id == SERIES_LIMIT ?
				   "more series than its limit; the others are not shown" :
			   id == HISTOGRAM_LIMIT ?
				   "more histograms than its limit; the others are not shown" :
			   id == OTHER_SESSION ?
				   "another client uses its only session of instruments" : "";
	char text[sizeof(sample->name)];

	*sample->provider = '\0';
	snprintf(sample->name, sizeof(sample->name), "%s", what);
	if (!*what && take_text(fields, text, sizeof(text)))
		memcpy(sample->name, text, sizeof(text));
	return RP_COUNTER_ERROR;
}

static enum rp_counter_word decode_instrument(struct rp_fields *fields,
					      struct rp_counter_sample *sample)
{
	char version[64], type[64];

	if (!take_text(fields, sample->provider, sizeof(sample->provider)) ||
	    !take_text(fields, version, sizeof(version)) ||
	    !take_text(fields, sample->name, sizeof(sample->name)) ||
	    !take_text(fields, type, sizeof(type)) ||
	    !take_text(fields, sample->unit, sizeof(sample->unit)) ||
	    !take_text(fields, sample->display, sizeof(sample->display)))
		return RP_COUNTER_OTHER;
	return RP_COUNTER_INSTRUMENT;
}

static enum rp_counter_word decode_metrics(const struct rp_reader_event *event, double interval_s,
					   struct rp_counter_sample *sample)
{
	uint32_t id = event->type->id;
	char session[64], version[64];
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	if (!take_text(&fields, session, sizeof(session)))
		return RP_COUNTER_OTHER;
	if (id == OTHER_SESSION)
		return decode_error(&fields, id, sample);
	if (strcmp(session, RP_COUNTER_METRICS_SESSION) != 0)
		return RP_COUNTER_OTHER;
	if (id == ENUMERATED)
		return RP_COUNTER_ENUMERATED;
	if (id == INSTRUMENT_BEGIN)
		return decode_instrument(&fields, sample);
	if (id == SESSION_ERROR || id == SERIES_LIMIT || id == HISTOGRAM_LIMIT ||
	    id == CALLBACK_ERROR)
		return decode_error(&fields, id, sample);
	if (id != COUNTER_RATE && id != GAUGE_VALUE && id != HISTOGRAM_VALUE &&
	    id != UPDOWN_VALUE && id != HISTOGRAM_TOTAL)
		return RP_COUNTER_OTHER;
	if (!take_text(&fields, sample->provider, sizeof(sample->provider)) ||
	    !take_text(&fields, version, sizeof(version)) ||
	    !take_text(&fields, sample->name, sizeof(sample->name)) ||
	    !take_text(&fields, sample->unit, sizeof(sample->unit)) ||
	    !take_text(&fields, sample->tags, sizeof(sample->tags)) ||
	    !take_values(&fields, id, sample))
		return RP_COUNTER_OTHER;
	sample->is_instrument = true;
	sample->interval_s = interval_s;
	return RP_COUNTER_SAMPLE;
}

static bool find_text(const struct rp_fields *fields, const char *name, char *text, size_t space)
{
	struct rp_value value = RP_VALUE_INIT;

	if (rp_fields_find(fields, name, &value) != 0)
		return false;
	rp_value_get_text(&value, text, space);
	return true;
}

static double find_number(const struct rp_fields *fields, const char *name)
{
	struct rp_value value = RP_VALUE_INIT;

	return rp_fields_find(fields, name, &value) == 0 ? value.f64 : NAN;
}

/* Enters the struct that holds the fields, or the struct inside another, as .NET writes them. */
static void enter_payload(const struct rp_reader_event *event, struct rp_fields *ret_fields)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;

	rp_reader_get_fields(event, ret_fields);
	fields = *ret_fields;
	while (rp_fields_next(&fields, &value) == 1 && value.type == RP_TYPE_STRUCT)
		fields = *ret_fields = value.inner;
}

static enum rp_counter_word decode_event_counters(const struct rp_reader_event *event,
						  double interval_s,
						  struct rp_counter_sample *sample)
{
	char series[64], ours[64], type[16];
	struct rp_fields fields;

	enter_payload(event, &fields);
	snprintf(ours, sizeof(ours), "Interval=%.0f", interval_s * 1000);
	if (!find_text(&fields, "Series", series, sizeof(series)) ||
	    (interval_s > 0 && strcmp(series, ours) != 0) ||
	    !find_text(&fields, "CounterType", type, sizeof(type)) ||
	    !find_text(&fields, "Name", sample->name, sizeof(sample->name)))
		return RP_COUNTER_OTHER;
	snprintf(sample->provider, sizeof(sample->provider), "%s", event->type->provider);
	find_text(&fields, "DisplayName", sample->display, sizeof(sample->display));
	find_text(&fields, "DisplayUnits", sample->unit, sizeof(sample->unit));
	sample->form = strcmp(type, "Sum") == 0 ? RP_COUNTER_RATE : RP_COUNTER_VALUE;
	sample->value = find_number(&fields, sample->form == RP_COUNTER_RATE ? "Increment" :
								      "Mean");
	sample->total = NAN;
	sample->interval_s = find_number(&fields, "IntervalSec");
	return isnan(sample->value) ? RP_COUNTER_OTHER : RP_COUNTER_SAMPLE;
}

enum rp_counter_word rp_counter_decode(const struct rp_reader_event *event, double interval_s,
				       struct rp_counter_sample *ret_sample)
{
	memset(ret_sample, 0, sizeof(*ret_sample));
	ret_sample->time_ns = event->time_ns;
	if (strcmp(event->type->provider, RP_COUNTER_METRICS_PROVIDER) == 0)
		return decode_metrics(event, interval_s, ret_sample);
	if (strcmp(event->type->name, "EventCounters") == 0)
		return decode_event_counters(event, interval_s, ret_sample);
	return RP_COUNTER_OTHER;
}

double rp_counter_shown(const struct rp_counter_sample *sample)
{
	if (sample->form == RP_COUNTER_RATE && sample->interval_s > 0)
		return sample->value / sample->interval_s;
	return sample->value;
}
