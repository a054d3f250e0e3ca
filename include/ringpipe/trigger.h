/* SPDX-License-Identifier: MIT */
/*
 * Triggers: what makes a flight recorder (RP_SESSION_OVERWRITE in session.h) take a snapshot by
 * itself. A list with commas, of
 *
 *	Shop-Orders:failed		an event, by provider and name
 *	Shop-Orders:*:Error		any event of the provider, of that level or a worse one
 *	Shop-Orders:begin..done>250ms	a time between two events above a bound in ns, us, ms or s
 *	Shop-Orders:queue-length>1000	a counter that rises above a bound,
 *	Shop-Orders:orders<0.5		or falls below it
 *
 * Two events belong together by their activity id, without one by their thread; a second begin
 * takes the place of the first. Of a counter that only grows the rate in a second counts, of a
 * histogram the mean of what came since the last look, of others the value. Counters are looked at
 * once a second.
 *
 * The events of triggers are written once more, into a buffer of 1 MB that the drain thread empties
 * and looks through. No other event knows of it.
 */
#ifndef RINGPIPE_TRIGGER_H
#define RINGPIPE_TRIGGER_H

#include <ringpipe/session.h>

RP_BEGIN_DECLS

struct rp_triggers;

struct rp_trigger_options {
	uint32_t size;
	uint32_t distance_ms;		/* from one snapshot to the next, at least; 0: 10,000 */
	const char *triggers;		/* the list */
	/* Snapshots are numbered before the extension: flight.000001.nettrace and so on. */
	const char *path;
	uint32_t files;			/* so many are kept, the newest; 0: 10 */
	uint32_t reserved;		/* 0 */
};

struct rp_trigger_stats {
	uint32_t size;
	int32_t error;			/* -errno of the last that could not be taken, or 0 */
	uint64_t snapshots;
	uint64_t skipped;		/* triggers too soon after a snapshot, or during one */
	uint64_t failed;		/* snapshots that could not be taken */
	/*
	 * Events of triggers that were lost before anybody looked, and beginnings that were
	 * forgotten, of which 4,096 wait at a time.
	 */
	uint64_t missed;
};

/*
 * Watches for triggers, and has snapshots of the session taken on a thread made for that. An event
 * `Triggered` of provider `ringpipe` in each tells which trigger it was, when, and how many were
 * skipped and missed so far. Everything in `options` is copied.
 *
 * Context: any thread, not a signal handler; allocates. Provider callbacks run: the events of
 * triggers are on when this returns.
 * Return: 0; -EINVAL: the list cannot be read, the session does not overwrite, no path; -ENOENT and
 * what else opendir(3) says of the path's directory; -ENOSPC with RP_SESSIONS_MAX sessions running;
 * -ENOMEM, -EAGAIN.
 */
RP_PUBLIC int rp_triggers_start(struct rp_session *session,
				const struct rp_trigger_options *options,
				struct rp_triggers **ret_triggers);

/* The figures now. Set ret_stats->size before the call. Context: any thread, no signal handler. */
RP_PUBLIC int rp_triggers_get_stats(struct rp_triggers *triggers,
				    struct rp_trigger_stats *ret_stats);

/*
 * Ends it; before the session is stopped. What was written before is still looked at, and a
 * snapshot that is due is taken. NULL is fine.
 *
 * Context: any thread, not a signal handler, not a callback of ringpipe's (-EDEADLK on the drain
 * thread). Blocks while a snapshot is written. Return: 0.
 */
RP_PUBLIC int rp_triggers_stop(struct rp_triggers *triggers, struct rp_trigger_stats *ret_stats);

RP_END_DECLS

#endif
