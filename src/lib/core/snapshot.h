/* SPDX-License-Identifier: MIT */
/*
 * Snapshots of overwriting sessions: the caller's thread copies the rings, then writes them to a
 * sink.
 */
#ifndef RP_CORE_SNAPSHOT_H
#define RP_CORE_SNAPSHOT_H

#include <ringpipe/session.h>

#include "core/sink.h"

struct rp_snapshot;

/*
 * Copy the rings of a session while writers continue. The session does not end until
 * rp_snapshot_free(). Return: 0; -EINVAL, -EPIPE, -EDEADLK, -ENOMEM: as rp_session_snapshot().
 */
int rp_snapshot_take(struct rp_session *session, struct rp_snapshot **ret_snapshot);
/*
 * As rp_snapshot_take(), for the overwriting session with this id; 0: the only overwriting session.
 * The session may end before the call. Return: as rp_snapshot_take(); -EINVAL: no overwriting
 * session with this id is running; -ENOTUNIQ: the id is 0, and several overwriting sessions run.
 */
int rp_snapshot_take_by_id(uint64_t session_id, struct rp_snapshot **ret_snapshot);
void rp_snapshot_free(struct rp_snapshot *snapshot);

/* Get the ids of all running overwriting sessions. Return: their number. */
size_t rp_snapshot_sessions(uint64_t ret_ids[RP_SESSIONS_MAX]);

struct rp_snapshot_about {
	uint64_t session_id;
	uint64_t start_ns;		/* not after the first event; CLOCK_MONOTONIC */
	uint32_t session_flags;
	uint32_t sample_interval_ns;
	uint32_t format;
};

void rp_snapshot_get_about(const struct rp_snapshot *snapshot, struct rp_snapshot_about *ret_about);

/*
 * Add an event after the snapshot's events. `note` and its pointers must be valid until
 * rp_snapshot_write() returns.
 */
void rp_snapshot_note(struct rp_snapshot *snapshot, const struct rp_record_view *note);

/*
 * Write the snapshot to a sink, and wait until the sink has finished. Call it once for a snapshot.
 * Return: 0; -ETIMEDOUT: the sink accepted no more data in time; or another error of the sink.
 */
int rp_snapshot_write(struct rp_snapshot *snapshot, struct rp_sink *sink,
		      struct rp_snapshot_info *ret_info);

#endif
