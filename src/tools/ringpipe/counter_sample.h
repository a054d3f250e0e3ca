/* SPDX-License-Identifier: MIT */
/*
 * Decodes the counter events of a process, .NET's or ringpipe's: the event EventCounters of any
 * provider, and the events of System.Diagnostics.Metrics.
 *
 * Source: the field layouts that EventSource and MetricsEventSource of dotnet/runtime write, as
 * their readers in dotnet/diagnostics take them: EventCounters by names, Metrics by positions.
 */
#ifndef RP_TOOL_COUNTER_SAMPLE_H
#define RP_TOOL_COUNTER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#define RP_COUNTER_METRICS_PROVIDER "System.Diagnostics.Metrics"
/* The session of Metrics that all clients share, each with its own ClientId. */
#define RP_COUNTER_METRICS_SESSION "SHARED"

#define RP_COUNTER_QUANTILES_MAX 16u

enum rp_counter_form {
	RP_COUNTER_RATE,	/* how much it went up in the interval */
	RP_COUNTER_VALUE,	/* what it was */
	RP_COUNTER_SPREAD,	/* quantiles of the interval's values */
};

struct rp_counter_quantile {
	double at;		/* 0 to 1 */
	double value;
};

/* One counter's word on one interval. Longer texts are cut. */
struct rp_counter_sample {
	int64_t time_ns;		/* since the start of the recording */
	enum rp_counter_form form;
	bool is_instrument;		/* from Metrics */
	char provider[256];
	char name[256];			/* the one to show */
	char display[256];		/* what it counts, for people; or "" */
	char unit[64];
	char tags[1024];		/* key=value,… */
	double interval_s;
	double value;			/* RATE, VALUE */
	double total;			/* RATE: since the counter was made, or NaN */
	bool is_total;			/* SPREAD: count and sum since the counter was made */
	uint64_t count;			/* SPREAD */
	double sum;			/* SPREAD */
	uint32_t quantile_count;	/* SPREAD */
	struct rp_counter_quantile quantiles[RP_COUNTER_QUANTILES_MAX];
};

enum rp_counter_word {
	RP_COUNTER_OTHER,	/* nothing about a counter, or not for us */
	RP_COUNTER_SAMPLE,
	RP_COUNTER_INSTRUMENT,	/* `provider` has an instrument of this `name`, and `display` */
	RP_COUNTER_ENUMERATED,	/* all instruments there are have been named */
	RP_COUNTER_ERROR,	/* `name` says what the process could not do, `provider` where */
};

/* Decodes an event; `interval_s` is the requested interval. */
enum rp_counter_word rp_counter_decode(const struct rp_reader_event *event, double interval_s,
				       struct rp_counter_sample *ret_sample);

#endif
