/* SPDX-License-Identifier: MIT */
/* The sinks there are. Each is made here, then given to rp_session_open(). */
#ifndef RP_SINK_SINKS_H
#define RP_SINK_SINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/sink.h"

/* The content of a stream besides its events. */
struct rp_sink_content {
	bool rundown;			/* with stacks: what is mapped, and names in the end */
	uint32_t sample_interval_ns;	/* rp_sample_interval_of() the session's providers */
	uint32_t format;		/* version of nettrace: 6; otherwise 4 */
	uint64_t start_ns;		/* before the first event; 0: now */
	bool rolls;			/* a file may be deleted while it is written */
};

/*
 * Create a sink that streams nettrace to a regular file (or a device). When the disk is full, the
 * sink cuts the file back to its last whole block and ends it there. `replace`: the first write
 * replaces the file's content; if the header cannot be written, the sink deletes the file. A file
 * that another program changed ends the sink with -ESTALE. The sink owns fd on success.
 */
int rp_sink_file_create(int fd, bool replace, const struct rp_sink_content *content,
			struct rp_sink **ret_sink);

/* Bytes that a sink of rp_sink_file_create() has written, and those that wait to be written. */
uint64_t rp_sink_file_bytes(const struct rp_sink *sink);

/*
 * Create a sink that writes one nettrace file after the other. It deletes the oldest files to stay
 * within the quota. The numbers (sink/series.h) continue those of existing files. The sink survives
 * the deletion of the current file, and a full disk as long as it can delete an older file.
 *
 * Return: 0; -EBUSY: another sink writes the newest of these files; -ENOMEM; what open(2) said.
 */
int rp_sink_roll_create(const char *path, uint64_t quota_bytes,
			const struct rp_sink_content *content, struct rp_sink **ret_sink);

/*
 * The output at a path, locked against other sessions. Return: a descriptor, or -errno as
 * rp_session_start().
 */
int rp_sink_open_path(const char *path);

/* A stream for a socket or a pipe, a file for the rest. As rp_sink_file_create(). */
int rp_sink_create(int fd, bool replace, const struct rp_sink_content *content,
		   struct rp_sink **ret_sink);

/*
 * As rp_session_snapshot() to a path. The snapshot writes `note`, unless it is NULL, after the
 * events and ignores the note's time.
 */
int rp_sink_snapshot(struct rp_session *session, const char *path,
		     const struct rp_record_view *note);

/* A sink that takes nothing, for a session that is only ever asked for snapshots. 0 or -ENOMEM. */
int rp_sink_none_create(struct rp_sink **ret_sink);

/*
 * A sink that streams nettrace to a connected socket or a pipe, never waiting. Owns fd on success;
 * `preamble` (copied) goes out before the stream.
 */
int rp_sink_stream_create(int fd, const void *preamble, size_t preamble_bytes,
			  const struct rp_sink_content *content, struct rp_sink **ret_sink);

struct rp_snapshot;

/* Writes a snapshot to a file, which is closed. Return: as rp_session_snapshot(). */
int rp_sink_write_snapshot(struct rp_snapshot *snapshot, int fd, struct rp_snapshot_info *ret_info);

/*
 * Sends a snapshot over a connected socket, which stays the caller's, behind the preamble. Waits
 * for a peer that reads. Return: 0; -ETIMEDOUT: it takes nothing; what send(2) says; -ENOMEM.
 */
int rp_sink_send_snapshot(struct rp_snapshot *snapshot, int fd, const void *preamble,
			  size_t preamble_bytes);

/*
 * A sink that packs events into batches and fires the probe `ringpipe:batch` for each; see
 * sink/batch.c for what goes over the connected socket and what has to come back. Owns fd on
 * success; `preamble` (copied) goes out first.
 */
int rp_sink_batch_create(int fd, uint64_t session_id, const void *preamble, size_t preamble_bytes,
			 struct rp_sink **ret_sink);

#endif
