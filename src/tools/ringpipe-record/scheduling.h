/* SPDX-License-Identifier: MIT */
/*
 * How the kernel schedules the recorder. A busy machine must not keep the recorder from its rings,
 * which fill up in a fraction of a second. A nice value does not ensure that: it counts only within
 * the recorder's control group and, with sched_autogroup_enabled, within its terminal session.
 */
#ifndef RP_RECORD_SCHEDULING_H
#define RP_RECORD_SCHEDULING_H

/*
 * Schedule this thread before all programs that have no real-time priority, or, without the right
 * to that, by a nice value. Children start without the real-time priority. A thread that has a
 * real-time priority keeps it.
 *
 * Context: one thread of the process.
 */
void rp_scheduling_raise(void);

/* Schedule this thread as before, and the children that it starts from now on. */
void rp_scheduling_reset(void);

#endif
