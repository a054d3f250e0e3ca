/* SPDX-License-Identifier: MIT */
/*
 * Decodes the counter events of .NET and of ringpipe: the event EventCounters of any provider, and
 * the events of System.Diagnostics.Metrics.
 *
 * Source: EventSource and MetricsEventSource of dotnet/runtime write these fields. As in the
 * readers of dotnet/diagnostics, EventCounters are decoded by field name and Metrics by position.
 */
#ifndef RP_TOOL_COUNTER_SAMPLE_H
#define RP_TOOL_COUNTER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#define RP_COUNTER_METRICS_PROVIDER "System.Diagnostics.Metrics"
/* All clients share this session of Metrics; each has its own ClientId. */
#define RP_COUNTER_METRICS_SESSION "SHARED"

#define RP_COUNTER_QUANTILES_MAX 16u

enum rp_counter_form {
	RP_COUNTER_RATE,	/* the increase in the interval */
	RP_COUNTER_VALUE,	/* the current value */
	RP_COUNTER_SPREAD,	/* quantiles of the values in the interval */
};

struct rp_counter_quantile {
	double at;		/* the quantile, from 0 to 1 */
	double value;
};

/* One counter's values in one interval. Longer texts are cut. */
struct rp_counter_sample {
	int64_t time_ns;		/* since the start of the recording */
	enum rp_counter_form form;
	bool is_instrument;		/* from Metrics */
	char provider[256];
	char name[256];			/* the name to show */
	char display[256];		/* the display name, or "" */
	char unit[64];
	char tags[1024];		/* key=value,… */
	double interval_s;
	double value;			/* RATE, VALUE */
	double total;			/* RATE: since the counter was created, or NaN */
	bool is_total;			/* SPREAD: count and sum since the counter was created */
	uint64_t count;			/* SPREAD */
	double sum;			/* SPREAD */
	uint32_t quantile_count;	/* SPREAD */
	struct rp_counter_quantile quantiles[RP_COUNTER_QUANTILES_MAX];
};

enum rp_counter_word {
	RP_COUNTER_OTHER,	/* not about a counter, or for another client */
	RP_COUNTER_SAMPLE,
	RP_COUNTER_INSTRUMENT,	/* `provider` has an instrument `name` with `display` */
	RP_COUNTER_ENUMERATED,	/* the process has announced all its instruments */
	RP_COUNTER_ERROR,	/* `name` is the error message, `provider` its source */
};

/* Decodes an event; `interval_s` is the requested interval in seconds, or 0 for any. */
enum rp_counter_word rp_counter_decode(const struct rp_reader_event *event, double interval_s,
				       struct rp_counter_sample *ret_sample);

/* Return: the value to show. A RATE is shown per second. */
double rp_counter_shown(const struct rp_counter_sample *sample);

#endif
