/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/counter_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/cli/signals.h"
#include "tools/trace/counter_sample.h"

#define SERIES_MAX 1000
#define HISTOGRAMS_MAX 100

char *rp_counter_request_events(double interval_s)
{
	char *text;

	return asprintf(&text, "EventCounterIntervalSec=%g", interval_s) < 0 ? NULL : text;
}

char *rp_counter_request_metrics(const char *meters, double interval_s)
{
	char *text;

	return asprintf(&text,
			"SessionId=" RP_COUNTER_METRICS_SESSION ";Metrics=%s;RefreshInterval=%g;"
			"MaxTimeSeries=%d;MaxHistograms=%d;ClientId=ringpipe-%d-%" PRIx64,
			meters, interval_s, SERIES_MAX, HISTOGRAMS_MAX, (int)getpid(),
			(uint64_t)rp_now_ms()) < 0 ? NULL : text;
}
