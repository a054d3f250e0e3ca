/* SPDX-License-Identifier: MIT */
/*
 * The files of a recoverable session, as its process writes them. recover/recovery_format.h
 * describes their content; recover/recovery.h reads them when the process is gone.
 */
#ifndef RP_RECOVER_FILES_H
#define RP_RECOVER_FILES_H

#include "base/event_definition.h"
#include "recover/recovery_format.h"
#include "ring/ring.h"

struct rp_recovery_files;

struct rp_recovery_setup {
	const char *parent;		/* a directory, created if missing; "": the default */
	const char *name;		/* of the session */
	uint32_t ring_space;		/* the maximum number of rings */
	int output_fd;			/* a regular file; -1: there is no output */
	uint64_t start_ns;		/* as in its head */
	int64_t start_utc_ns;
};

#define RP_RECOVERY_PARENT_BYTES 64u

/* /dev/shm/ringpipe-UID */
void rp_recovery_default_parent(char parent[RP_RECOVERY_PARENT_BYTES]);

/*
 * Opens a directory that sessions of this user have theirs in; makes it where it is missing.
 * Return: the descriptor; -EPERM: it is another user's, or others may write to it; -ELOOP and
 * -ENOTDIR for a link; what else open(2) and mkdir(2) say.
 */
int rp_recovery_open_parent(const char *path);

/* Makes the directory. Return: 0; -EFBIG: RLIMIT_FSIZE; -ENOSPC; -ENOMEM; as open_parent. */
int rp_recovery_create(const struct rp_recovery_setup *setup,
		       struct rp_recovery_files **ret_recovery);

/* The next ring, all of its memory there, and its number. Return: 0; as rp_recovery_create(). */
int rp_recovery_make_ring(struct rp_recovery_files *recovery, size_t size, uint32_t id,
			  struct rp_ring **ret_ring, uint32_t *ret_number);

/* From here on there is something to recover. */
void rp_recovery_begin(struct rp_recovery_files *recovery);

/* Call under one lock. On a full file system the definition is missing, and so are its events. */
void rp_recovery_define(struct rp_recovery_files *recovery, uint32_t index, uint64_t serial,
		     const struct rp_definition *definition);

/* Return the record to fill, and make it the valid record. Call both from one thread. */
struct rp_recover_record *rp_recovery_next_record(struct rp_recovery_files *recovery);
void rp_recovery_commit(struct rp_recovery_files *recovery);
/* Change `lost_besides` of the record that counts, by one store. */
void rp_recovery_set_lost(struct rp_recovery_files *recovery, uint64_t lost_besides);

/* Delete the directory: nothing is left to recover. The caller owns the rings. NULL is fine. */
void rp_recovery_destroy(struct rp_recovery_files *recovery);

/*
 * End after a failed output: the files stay for recovery as of the last record, and no process has
 * them mapped. The caller owns the rings.
 */
void rp_recovery_leave(struct rp_recovery_files *recovery);

/* In a forked child: release the files, and leave them to the parent. */
void rp_recovery_forget(struct rp_recovery_files *recovery);

#endif
