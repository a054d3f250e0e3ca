/* SPDX-License-Identifier: MIT */
/*
 * Triggers are conditions under which a flight recorder (RP_SESSION_OVERWRITE in session.h) takes a
 * snapshot automatically. They are specified as a comma-separated list of these forms:
 *
 *	Shop-Orders:failed		an event, by provider and name
 *	Shop-Orders:*:Error		any event of the provider, of this or a more severe level
 *	Shop-Orders:begin..done>250ms	a time between two events above a limit in ns, us, ms or s
 *	Shop-Orders:queue-length>1000	a counter that rises above a limit
 *	Shop-Orders:orders<0.5		a counter that falls below a limit
 *
 * A begin event and an end event belong together if they have the same activity id, or the same
 * thread if they have no id. A second begin event replaces the first. The library checks counters
 * once a second. It compares the limit with the rate per second of a counter that only grows, with
 * the mean of a histogram's values since the last check, and with the value of other counters.
 *
 * Writers also copy the triggers' events into a separate buffer of 1 MB, which the drain thread
 * empties and checks. Other events cost the same as without triggers.
 */
#ifndef RINGPIPE_TRIGGER_H
#define RINGPIPE_TRIGGER_H

#include <ringpipe/session.h>

RP_BEGIN_DECLS

struct rp_triggers;

struct rp_trigger_options {
	uint32_t size;
	uint32_t distance_ms;		/* minimum time between snapshots; 0: 10,000 */
	const char *triggers;		/* the list, as described above */
	/*
	 * The file of snapshots, with a number before the extension: flight.000001.nettrace and so
	 * on.
	 */
	const char *path;
	uint32_t files;			/* number of files to keep; 0: 10 */
	uint32_t reserved;		/* 0 */
};

#define RP_TRIGGER_OPTIONS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_trigger_options, reserved)
#define RP_TRIGGER_OPTIONS_INIT RP_INIT_(struct rp_trigger_options)

struct rp_trigger_stats {
	uint32_t size;
	int32_t error;			/* -errno of the last failed snapshot, or 0 */
	uint64_t snapshots;
	uint64_t skipped;		/* triggers during a snapshot, or too soon after one */
	uint64_t failed;		/* snapshots that failed */
	/*
	 * Events of triggers that were lost before the check, and begin events that were dropped
	 * because 4,096 others were waiting for their end event.
	 */
	uint64_t missed;
};

#define RP_TRIGGER_STATS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_trigger_stats, missed)
#define RP_TRIGGER_STATS_INIT RP_INIT_(struct rp_trigger_stats)

/*
 * Check triggers and take snapshots of the session, on a separate thread. Each snapshot contains an
 * event `Triggered` of provider `ringpipe` with the trigger, its time, and the numbers of skipped
 * and missed triggers so far. The function copies everything in `options`.
 *
 * Context: any thread, not a signal handler; allocates. Runs provider callbacks: the triggers'
 * events are enabled when the function returns.
 * Return: 0; -EINVAL if the list is invalid, the session does not overwrite, or there is no path;
 * -ENOSPC if RP_SESSIONS_MAX sessions are running; -ENOMEM if an allocation fails; -EAGAIN if a
 * thread cannot be created; or an error of opendir(3) for the directory of the path.
 */
RP_PUBLIC int rp_triggers_start(struct rp_session *session,
				const struct rp_trigger_options *options,
				struct rp_triggers **ret_triggers);

/*
 * Return the current statistics of the triggers.
 *
 * Context: any thread, not a signal handler.
 * Return: 0; -EINVAL if a pointer is NULL or the size of `ret_stats` is too small.
 */
RP_PUBLIC int rp_triggers_get_stats(struct rp_triggers *triggers,
				    struct rp_trigger_stats *ret_stats);

/*
 * Stop the triggers. Call this function before the session is stopped. Triggers still check events
 * that were written before the call, and a pending snapshot is taken. NULL is allowed. On failure
 * nothing is stopped.
 *
 * Context: any thread, not a signal handler, not a callback of ringpipe. Blocks while a snapshot is
 * written.
 * Return: 0; -EDEADLK if called on the drain thread; -EINVAL if the size of `ret_stats`, which may
 * be NULL, is too small.
 */
RP_PUBLIC int rp_triggers_stop(struct rp_triggers *triggers, struct rp_trigger_stats *ret_stats);

RP_END_DECLS

#endif
