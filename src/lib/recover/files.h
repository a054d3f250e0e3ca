/* SPDX-License-Identifier: MIT */
/*
 * The files of a recoverable session, as its process writes them. recover/recovery_format.h
 * describes their content. recover/recovery.h reads them after the process has ended.
 */
#ifndef RP_RECOVER_FILES_H
#define RP_RECOVER_FILES_H

#include "base/event_definition.h"
#include "recover/recovery_format.h"
#include "ring/ring.h"

struct rp_recovery_files;

struct rp_recovery_setup {
	const char *parent;		/* a directory, created if missing; "": the default */
	const char *name;		/* the session's name */
	uint32_t ring_space;		/* the maximum number of rings */
	int output_fd;			/* a regular file; -1: there is no output */
	uint64_t start_ns;		/* as in the header of the output */
	int64_t start_utc_ns;
	uint32_t format;		/* version of nettrace: 6; otherwise 4 */
	uint64_t own_ids;		/* of activities, as in struct rp_encoder_info */
};

#define RP_RECOVERY_PARENT_BYTES 64u

/* Get the default: /dev/shm/ringpipe-UID. */
void rp_recovery_default_parent(char parent[RP_RECOVERY_PARENT_BYTES]);

/*
 * Create the session's directory and files. Return: 0; -EFBIG: RLIMIT_FSIZE; -ENOSPC; -ENOMEM;
 * -EINVAL: too many rings; -EPERM: the parent directory belongs to another user, or others may
 * write to it; -ELOOP or -ENOTDIR: it is a symbolic link, or no directory; -errno of mkdir(2) or
 * open(2).
 */
int rp_recovery_create(const struct rp_recovery_setup *setup,
		       struct rp_recovery_files **ret_recovery);

/*
 * Create the next ring, with all of its memory allocated, and get its number. Return: 0; as
 * rp_recovery_create().
 */
int rp_recovery_make_ring(struct rp_recovery_files *recovery, size_t size, uint32_t id,
			  struct rp_ring **ret_ring, uint32_t *ret_number);

/* Mark the session as begun: from here on, recovery can use its files. */
void rp_recovery_begin(struct rp_recovery_files *recovery);

/*
 * Append a definition to the file. If the file system is full, the definition is missing, and
 * recovery leaves out its events. The caller holds a lock around all calls.
 */
void rp_recovery_define(struct rp_recovery_files *recovery, uint32_t index, uint64_t serial,
		     const struct rp_definition *definition);

/* Get the record to fill; commit makes it the valid record. Call both from one thread. */
struct rp_recover_record *rp_recovery_next_record(struct rp_recovery_files *recovery);
void rp_recovery_commit(struct rp_recovery_files *recovery);
/* Change `lost_besides` of the valid record, with one store. */
void rp_recovery_set_lost(struct rp_recovery_files *recovery, uint64_t lost_besides);

/* Delete the directory: nothing is left to recover. The caller owns the rings. NULL is allowed. */
void rp_recovery_destroy(struct rp_recovery_files *recovery);

/*
 * End after a failed output: the files stay for recovery as of the last record, and this process
 * unmaps them. The caller owns the rings.
 */
void rp_recovery_leave(struct rp_recovery_files *recovery);

/* In a forked child: release the files, and leave them to the parent. */
void rp_recovery_forget(struct rp_recovery_files *recovery);

#endif
