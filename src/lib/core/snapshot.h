/* SPDX-License-Identifier: MIT */
/* Snapshots of overwriting sessions: copied, then written to a sink, on the caller's thread. */
#ifndef RP_CORE_SNAPSHOT_H
#define RP_CORE_SNAPSHOT_H

#include <ringpipe/session.h>

#include "core/sink.h"

struct rp_snapshot;

/*
 * Copies the rings while writers go on. The session does not end until rp_snapshot_free().
 * Return: 0; -EINVAL, -EPIPE, -EDEADLK, -ENOMEM as rp_session_snapshot().
 */
int rp_snapshot_take(struct rp_session *session, struct rp_snapshot **ret_snapshot);
/*
 * The same for the session with this id, which may end meanwhile. 0: the only overwriting session.
 * Return: as above; -EINVAL: no such overwriting session; -ENOTUNIQ: id 0, but more than one.
 */
int rp_snapshot_take_by_id(uint64_t session_id, struct rp_snapshot **ret_snapshot);
void rp_snapshot_free(struct rp_snapshot *snapshot);

/* The ids of all that overwrite now. Return: how many. */
size_t rp_snapshot_sessions(uint64_t ret_ids[RP_SESSIONS_MAX]);

struct rp_snapshot_about {
	uint64_t session_id;
	uint64_t start_ns;		/* before its first event; CLOCK_MONOTONIC */
	uint32_t session_flags;
	uint32_t sample_interval_ns;
	uint32_t format;
};

void rp_snapshot_get_about(const struct rp_snapshot *snapshot, struct rp_snapshot_about *ret_about);

/* Adds an event after the snapshot's events; its pointers must be valid until it is written. */
void rp_snapshot_note(struct rp_snapshot *snapshot, const struct rp_record_view *note);

/*
 * Gives all of it to a sink, once, and waits for that to finish. Return: 0, or what the sink said;
 * -ETIMEDOUT: it took nothing.
 */
int rp_snapshot_write(struct rp_snapshot *snapshot, struct rp_sink *sink,
		      struct rp_snapshot_info *ret_info);

#endif
