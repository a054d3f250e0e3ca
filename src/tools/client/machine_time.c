/* SPDX-License-Identifier: MIT */
#include "tools/client/machine_time.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/time_namespace.h"

/* By how much the clock of this process is ahead. A process stays in its time namespace. */
static int64_t find_offset(clockid_t clock)
{
	static int64_t monotonic_ns, boottime_ns;
	static bool is_known;

	if (!is_known) {
		monotonic_ns = rp_time_namespace_offset(getpid());
		boottime_ns = rp_time_namespace_read(getpid(), "boottime");
		is_known = true;
	}
	return clock == CLOCK_MONOTONIC ? monotonic_ns : clock == CLOCK_BOOTTIME ? boottime_ns : 0;
}

int rp_machine_time_get(clockid_t clock, struct timespec *ret_time)
{
	int ret = clock_gettime(clock, ret_time);
	const int64_t ns = ret_time->tv_sec * 1000000000ll + ret_time->tv_nsec - find_offset(clock);

	if (ret == 0)
		*ret_time = (struct timespec){ ns / 1000000000, ns % 1000000000 };
	return ret;
}

uint64_t rp_machine_time_ns(void)
{
	struct timespec now = { 0 };

	(void)rp_machine_time_get(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
