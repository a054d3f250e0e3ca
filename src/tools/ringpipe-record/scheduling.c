/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/scheduling.h"

#include <sched.h>
#include <sys/resource.h>

#define NICE -10

/* The lowest real-time priority: threads of the kernel and of other programs come first. */
#define REAL_TIME 1

static void set_policy(int policy, int priority)
{
	const struct sched_param parameters = { .sched_priority = priority };

	(void)sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &parameters);
}

void rp_scheduling_raise(void)
{
	(void)setpriority(PRIO_PROCESS, 0, NICE);
	set_policy(SCHED_RR, REAL_TIME);
}

void rp_scheduling_reset(void)
{
	set_policy(SCHED_OTHER, 0);
	(void)setpriority(PRIO_PROCESS, 0, 0);
}
