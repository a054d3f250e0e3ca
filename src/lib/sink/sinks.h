/* SPDX-License-Identifier: MIT */
/* The constructors of all sinks. The caller passes the sink to rp_session_open(). */
#ifndef RP_SINK_SINKS_H
#define RP_SINK_SINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/sink.h"

/* The content of a stream other than its events. */
struct rp_sink_content {
	bool rundown;			/* with stacks: mappings, and symbols at the end */
	uint32_t sample_interval_ns;	/* rp_sample_interval_of() of the session's providers */
	uint32_t format;		/* version of nettrace: 6; otherwise 4 */
	uint64_t start_ns;		/* not after the first event; 0: now */
	bool rolls;			/* a file may be deleted while it is written */
};

/*
 * Create a sink that streams nettrace to a regular file (or a device). If the disk is full, the
 * sink cuts the file back to its last whole block and ends it there. With `replace`, the first
 * write replaces the file's content; if the header cannot be written, the sink deletes the file. If
 * another program changes the file, the sink ends with -ESTALE. The sink owns fd on success.
 */
int rp_sink_file_create(int fd, bool replace, const struct rp_sink_content *content,
			struct rp_sink **ret_sink);

/* Bytes that a sink of rp_sink_file_create() has written, plus those that wait to be written. */
uint64_t rp_sink_file_bytes(const struct rp_sink *sink);

/*
 * Create a sink that writes one nettrace file after the other. It deletes the oldest files to stay
 * within the quota. The files are numbered (sink/series.h), and the numbers continue those of
 * existing files. If another program deletes the current file, the sink begins the next. A full
 * disk does not end the sink as long as it can delete an older file.
 *
 * Return: 0; -EBUSY: another session writes the newest file; -ENOMEM; -errno of open(2).
 */
int rp_sink_roll_create(const char *path, uint64_t quota_bytes,
			const struct rp_sink_content *content, struct rp_sink **ret_sink);

/*
 * Open the output at a path, and lock it against other sessions. Return: a descriptor, or -errno as
 * rp_session_start().
 */
int rp_sink_open_path(const char *path);

/* Create a stream sink for a socket or a pipe, else a file sink. As rp_sink_file_create(). */
int rp_sink_create(int fd, bool replace, const struct rp_sink_content *content,
		   struct rp_sink **ret_sink);

/*
 * As rp_session_snapshot() to a path. If `note` is not NULL, the snapshot writes this event after
 * the others and ignores its time.
 */
int rp_sink_snapshot(struct rp_session *session, const char *path,
		     const struct rp_record_view *note);

/*
 * Create a sink that accepts no events, for a session whose only output is snapshots. Return: 0 or
 * -ENOMEM.
 */
int rp_sink_none_create(struct rp_sink **ret_sink);

/*
 * Create a sink that streams nettrace to a connected socket or a pipe without blocking. The sink
 * copies `preamble` and sends it before the stream. The sink owns fd on success.
 */
int rp_sink_stream_create(int fd, const void *preamble, size_t preamble_bytes,
			  const struct rp_sink_content *content, struct rp_sink **ret_sink);

struct rp_snapshot;

/* Write a snapshot to a file, and close the file. Return: as rp_session_snapshot(). */
int rp_sink_write_snapshot(struct rp_snapshot *snapshot, int fd, struct rp_snapshot_info *ret_info);

/*
 * Send the preamble and a snapshot over a connected socket, which stays the caller's. The function
 * waits as long as the peer reads.
 * Return: 0; -ETIMEDOUT: the peer does not read; -errno of send(2); -ENOMEM.
 */
int rp_sink_send_snapshot(struct rp_snapshot *snapshot, int fd, const void *preamble,
			  size_t preamble_bytes);

/*
 * Create a sink for BPF programs. It packs events into a buffer, and fires the probe
 * `ringpipe:batch`, with `session_id`, for each full buffer and at the end of each pass. `fd` is a
 * socket that is connected to the client: sink/batch.c describes the frames that the sink sends
 * there, and the client's answers. The sink copies `preamble` and sends it first. The sink owns fd
 * on success.
 *
 * Return: 0; -ENOMEM; -errno of fstat(2).
 */
int rp_sink_batch_create(int fd, uint64_t session_id, const void *preamble, size_t preamble_bytes,
			 struct rp_sink **ret_sink);

#endif
