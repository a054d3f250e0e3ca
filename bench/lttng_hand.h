/* SPDX-License-Identifier: MIT */
/* The tracepoints that a program would have written by hand, for LTTng alone. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench_hand

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_hand.h"

#if !defined(BENCH_LTTNG_HAND_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_HAND_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench_hand, four,
	LTTNG_UST_TP_ARGS(uint64_t, a, uint64_t, b, uint64_t, c, uint64_t, d),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, a, a)
		lttng_ust_field_integer(uint64_t, b, b)
		lttng_ust_field_integer(uint64_t, c, c)
		lttng_ust_field_integer(uint64_t, d, d)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(bench_hand, text,
	LTTNG_UST_TP_ARGS(uint64_t, a, const char *, s, double, f),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, a, a)
		lttng_ust_field_string(s, s)
		lttng_ust_field_float(double, f, f)
	)
)

#endif

#include <lttng/tracepoint-event.h>
