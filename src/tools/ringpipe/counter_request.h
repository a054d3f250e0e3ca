/* SPDX-License-Identifier: MIT */
/* Requests for counters, which the arguments of a session's providers state. */
#ifndef RP_TOOL_COUNTER_REQUEST_H
#define RP_TOOL_COUNTER_REQUEST_H

#define RP_COUNTER_METRICS_KEYWORDS 0x2ull	/* TimeSeriesValues */

/*
 * Make the argument of a provider that requests its EventCounters each interval.
 * Return: a text for free(); NULL: no memory.
 */
char *rp_counter_request_events(double interval_s);

/*
 * Make the arguments of RP_COUNTER_METRICS_PROVIDER, which request instruments each interval.
 * @meters: "name" or "name\instrument", separated by commas. .NET 8 and later have all meters whose
 * names begin with NAME for "NAME*".
 * Return: a text for free(); NULL: no memory.
 */
char *rp_counter_request_metrics(const char *meters, double interval_s);

#endif
