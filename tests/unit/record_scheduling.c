/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/scheduling.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct priority {
	int policy, real_time, nice;
};

static struct priority get_priority(void)
{
	struct sched_param parameters = { 0 };
	struct priority now = {
		.policy = sched_getscheduler(0), .nice = getpriority(PRIO_PROCESS, 0),
	};

	sched_getparam(0, &parameters);
	now.real_time = parameters.sched_priority;
	return now;
}

static bool is_equal(struct priority a, struct priority b)
{
	return a.policy == b.policy && a.real_time == b.real_time && a.nice == b.nice;
}

/* Return: whether this user may have that priority. The thread has it then. */
static bool set_priority(struct priority priority)
{
	const struct sched_param parameters = { .sched_priority = priority.real_time };

	return setpriority(PRIO_PROCESS, 0, priority.nice) == 0 &&
	       sched_setscheduler(0, priority.policy, &parameters) == 0;
}

/* An ordinary user may have the first ones, in this order. */
static const struct priority priorities[] = {
	{ SCHED_OTHER, 0, 0 }, { SCHED_BATCH, 0, 0 }, { SCHED_OTHER, 0, 5 }, { SCHED_IDLE, 0, 5 },
	{ SCHED_OTHER, 0, -5 }, { SCHED_OTHER, 0, -15 },
	{ SCHED_RR, 5, 0 }, { SCHED_FIFO, 1, 0 },
};

#define COUNT (sizeof(priorities) / sizeof(*priorities))

/* An ordinary user may have some of the priorities, and none above the present one. */
static void become_ordinary_user(void)
{
	if (geteuid() == 0)
		cr_assert(setuid(65534) == 0);
}

static void compare_with_priority_of_command(void)
{
	for (size_t i = 0; i < COUNT; i++) {
		int status = 0;

		if (!set_priority(priorities[i]))
			continue;
		rp_scheduling_raise();
		rp_scheduling_reset();
		cr_expect(is_equal(get_priority(), priorities[i]));
		if (fork() == 0)
			_exit(!is_equal(get_priority(), priorities[i]));
		wait(&status);
		cr_expect(status == 0, "policy %d, nice %d", priorities[i].policy,
			  priorities[i].nice);
	}
}

Test(record_scheduling, a_command_has_the_priority_that_the_recorder_had)
{
	compare_with_priority_of_command();
}

Test(record_scheduling, a_command_of_an_ordinary_user_has_the_priority_that_the_recorder_had)
{
	become_ordinary_user();
	compare_with_priority_of_command();
}

static void compare_with_priority_before(int lowest_real_time)
{
	for (size_t i = 0; i < COUNT; i++) {
		struct priority raised;

		if (!set_priority(priorities[i]))
			continue;
		rp_scheduling_raise();
		raised = get_priority();
		rp_scheduling_reset();
		cr_expect(raised.real_time >= lowest_real_time &&
			  raised.real_time >= priorities[i].real_time);
		cr_expect(raised.nice <= priorities[i].nice);
	}
}

Test(record_scheduling, the_recorder_has_no_lower_priority_than_before)
{
	const struct priority usual = { SCHED_OTHER, 0, 0 };
	const bool may_be_real_time = set_priority((struct priority){ SCHED_RR, 1, 0 });

	if (!set_priority(usual))
		cr_skip_test("nice(1) began this test");
	compare_with_priority_before(may_be_real_time);
}

Test(record_scheduling, the_recorder_of_an_ordinary_user_has_no_lower_priority_than_before)
{
	become_ordinary_user();
	compare_with_priority_before(0);
}

Test(record_scheduling, a_real_time_recorder_without_real_time_children_keeps_its_priority)
{
	const struct priority priority = { SCHED_RR | SCHED_RESET_ON_FORK, 5, 0 };

	if (!set_priority(priority))
		cr_skip_test("no right to a real-time priority");
	rp_scheduling_raise();
	cr_expect(is_equal(get_priority(), priority));
	rp_scheduling_reset();
	cr_expect(is_equal(get_priority(), priority));
}
