/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/scheduling.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>

#define NICE -10

/* The lowest real-time priority: threads of the kernel and of other programs come first. */
#define REAL_TIME 1

static bool is_raised;
static int nice_before, policy_before;	/* if it is raised */
static struct sched_param parameters_before;

/* Return: whether the thread runs before all programs already. */
static bool is_real_time(int policy)
{
	policy &= ~SCHED_RESET_ON_FORK;
	return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

void rp_scheduling_raise(void)
{
	const struct sched_param lowest = { .sched_priority = REAL_TIME };
	const int policy = sched_getscheduler(0);

	if (is_real_time(policy))
		return;
	if (!is_raised) {
		nice_before = getpriority(PRIO_PROCESS, 0);
		policy_before = policy;
		(void)sched_getparam(0, &parameters_before);
	}
	is_raised = true;
	if (nice_before > NICE)
		(void)setpriority(PRIO_PROCESS, 0, NICE);
	(void)sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest);
}

/* Without CAP_SYS_NICE, the thread returns to its policy, but its children do not inherit it. */
void rp_scheduling_reset(void)
{
	if (!is_raised)
		return;
	is_raised = false;
	if (sched_setscheduler(0, policy_before, &parameters_before) != 0)
		(void)sched_setscheduler(0, policy_before | SCHED_RESET_ON_FORK,
					 &parameters_before);
	(void)setpriority(PRIO_PROCESS, 0, nice_before);
}
