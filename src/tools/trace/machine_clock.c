/* SPDX-License-Identifier: MIT */
#include "tools/trace/machine_clock.h"

/* NTP changes the rate by at most this. More is a step. Source: adjtimex(2). */
#define DRIFT_MAX 500e-6

/* Two readings closer than this do not show a drift. */
#define SPAN_MIN_NS 10000000000ull

/* A damaged trace may state any readings: numbers of 64 bits wrap, and others are limited. */
static int64_t round_ns(double ns)
{
	if (ns >= 0x1p63)
		return INT64_MAX;
	if (ns < -0x1p63)
		return INT64_MIN;
	return (int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
}

static double size_of(double value)
{
	return value < 0 ? -value : value;
}

/* The distance of CLOCK_REALTIME from the first reading, beyond what CLOCK_MONOTONIC advanced. */
static double excess(const struct rp_clock_reading *readings, size_t at)
{
	const uint64_t utc_ns = (uint64_t)readings[at].utc_ns - (uint64_t)readings[0].utc_ns;

	return (double)(int64_t)(utc_ns - (readings[at].monotonic_ns - readings[0].monotonic_ns));
}

static double find_drift(const struct rp_clock_reading *readings, size_t count,
			 double *ret_at, double *ret_excess)
{
	double sum_t = 0, sum_e = 0, product = 0, square = 0;

	for (size_t i = 0; i < count; i++) {
		sum_t += (double)(readings[i].monotonic_ns - readings[0].monotonic_ns);
		sum_e += excess(readings, i);
	}
	*ret_at = sum_t / (double)count;
	*ret_excess = sum_e / (double)count;
	for (size_t i = 0; i < count; i++) {
		double t = (double)(readings[i].monotonic_ns - readings[0].monotonic_ns) - *ret_at;

		product += t * (excess(readings, i) - *ret_excess);
		square += t * t;
	}
	return square > 0 ? product / square : 0;
}

struct rp_machine_clock rp_machine_clock_find(const struct rp_clock_reading *readings, size_t count)
{
	struct rp_machine_clock line = { 0 };
	double at, mean, drift;

	if (!count)
		return line;
	drift = find_drift(readings, count, &at, &mean);
	line.drift = drift;
	if (size_of(drift) > DRIFT_MAX) {
		line.drift = 0;
		at = (double)(readings[count - 1].monotonic_ns - readings[0].monotonic_ns);
		mean = excess(readings, count - 1);
	} else if (readings[count - 1].monotonic_ns - readings[0].monotonic_ns < SPAN_MIN_NS) {
		line.drift = 0;
	}
	line.ns = readings[0].monotonic_ns + (uint64_t)round_ns(at);
	line.utc_ns = (int64_t)((uint64_t)readings[0].utc_ns + (uint64_t)round_ns(at) +
				(uint64_t)round_ns(mean));
	for (size_t i = 0; i < count; i++) {
		double t = (double)(int64_t)(readings[i].monotonic_ns - line.ns);
		int64_t utc_ns = (int64_t)((uint64_t)readings[i].utc_ns - (uint64_t)line.utc_ns);
		double distance = size_of((double)utc_ns - t - t * line.drift);
		uint64_t residual = (uint64_t)round_ns(distance) + readings[i].uncertainty_ns;

		if (residual > line.residual_ns)
			line.residual_ns = residual;
	}
	return line;
}

uint64_t rp_machine_clock_convert(const struct rp_machine_clock *from,
				  const struct rp_machine_clock *to, uint64_t ns)
{
	const uint64_t since = ns - from->ns;
	const uint64_t utc = (uint64_t)from->utc_ns + since +
			     (uint64_t)round_ns((double)(int64_t)since * from->drift);
	const uint64_t ahead = utc - (uint64_t)to->utc_ns;

	return to->ns + ahead -
	       (uint64_t)round_ns((double)(int64_t)ahead * to->drift / (1 + to->drift));
}
