/* SPDX-License-Identifier: MIT */
/*
 * Triggers: conditions under which a flight recorder (RP_SESSION_OVERWRITE in session.h) takes a
 * snapshot automatically. A comma-separated list of
 *
 *	Shop-Orders:failed		an event, by provider and name
 *	Shop-Orders:*:Error		any event of the provider, of that level or a worse one
 *	Shop-Orders:begin..done>250ms	a time between two events above a bound in ns, us, ms or s
 *	Shop-Orders:queue-length>1000	a counter that rises above a bound,
 *	Shop-Orders:orders<0.5		or falls below it
 *
 * Two events are matched by their activity id, or by their thread if they have none. A second begin
 * replaces the first. Triggers compare the rate per second of a counter that only grows, the mean
 * of a histogram's values since the last check, and the value of other counters. They check
 * counters once a second.
 *
 * The triggers' events are also written into a separate buffer of 1 MB, which the drain thread
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
	const char *triggers;		/* the list */
	/* Snapshots are numbered before the extension: flight.000001.nettrace and so on. */
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
	uint64_t skipped;		/* triggers too soon after a snapshot, or during one */
	uint64_t failed;		/* snapshots that could not be taken */
	/*
	 * Triggers' events that were lost before they were checked, and begin events that were
	 * dropped because 4,096 others were waiting for their end.
	 */
	uint64_t missed;
};

#define RP_TRIGGER_STATS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_trigger_stats, missed)
#define RP_TRIGGER_STATS_INIT RP_INIT_(struct rp_trigger_stats)

/*
 * Check triggers and take snapshots of the session, on a separate thread. Each snapshot has an
 * event `Triggered` of provider `ringpipe` with the trigger, its time, and the numbers of skipped
 * and missed ones so far. Everything in `options` is copied.
 *
 * Context: any thread, not a signal handler; allocates. Runs provider callbacks: the triggers'
 * events are enabled when it returns.
 * Return: 0; -EINVAL: the list is invalid, the session does not overwrite, no path; errors of
 * opendir(3) for the path's directory; -ENOSPC with RP_SESSIONS_MAX sessions running; -ENOMEM,
 * -EAGAIN.
 */
RP_PUBLIC int rp_triggers_start(struct rp_session *session,
				const struct rp_trigger_options *options,
				struct rp_triggers **ret_triggers);

/*
 * Return the current stats.
 *
 * Context: any thread, not a signal handler.
 * Return: 0; -EINVAL: NULL, or the size of `ret_stats` is too small.
 */
RP_PUBLIC int rp_triggers_get_stats(struct rp_triggers *triggers,
				    struct rp_trigger_stats *ret_stats);

/*
 * Stop the triggers. Call it before the session is stopped. Events written before are still
 * checked, and a pending snapshot is taken. NULL is allowed.
 *
 * Context: any thread, not a signal handler, not a callback of ringpipe's (-EDEADLK on the drain
 * thread). Blocks while a snapshot is written.
 * Return: 0; -EINVAL: the size of `ret_stats`, which may be NULL, is too small; nothing is stopped.
 */
RP_PUBLIC int rp_triggers_stop(struct rp_triggers *triggers, struct rp_trigger_stats *ret_stats);

RP_END_DECLS

#endif
