/* SPDX-License-Identifier: MIT */
/*
 * The files of a session that can be recovered, as the process that runs it writes them. What is in
 * them is told in recover/format.h; recover/recovery.h reads them when the process is gone.
 */
#ifndef RP_RECOVER_KEEP_H
#define RP_RECOVER_KEEP_H

#include "nettrace/encoder.h"
#include "recover/format.h"
#include "ring/ring.h"

struct rp_keep;

struct rp_keep_setup {
	const char *parent;		/* a directory, made if it is not there; "": the default */
	const char *name;		/* of the session */
	uint32_t ring_room;		/* rings there will be at most */
	int output_fd;			/* a regular file; -1: there is no output */
	uint64_t start_ns;		/* as in its head */
	int64_t start_utc_ns;
};

#define RP_KEEP_PARENT_BYTES 64u

/* /dev/shm/ringpipe-UID */
void rp_keep_default_parent(char parent[RP_KEEP_PARENT_BYTES]);

/*
 * Opens a directory that sessions of this user have theirs in; makes it where it is missing.
 * Return: the descriptor; -EPERM: it is another user's, or others may write to it; -ELOOP and
 * -ENOTDIR for a link; what else open(2) and mkdir(2) say.
 */
int rp_keep_open_parent(const char *path);

/* Makes the directory. Return: 0; -EFBIG: RLIMIT_FSIZE; -ENOSPC; -ENOMEM; as open_parent. */
int rp_keep_create(const struct rp_keep_setup *setup, struct rp_keep **ret_keep);

/* The next ring, all of its memory there, and its number. Return: 0; as rp_keep_create(). */
int rp_keep_make_ring(struct rp_keep *keep, size_t size, uint32_t id, struct rp_ring **ret_ring,
		      uint32_t *ret_number);

/* From here on there is something to recover. */
void rp_keep_begin(struct rp_keep *keep);

/* Under one lock. A definition that finds no room is missing, and its events with it. */
void rp_keep_define(struct rp_keep *keep, uint32_t index, uint64_t serial,
		     const struct rp_encoder_definition *definition);

/* The record to be filled, and then made the one that counts. One thread. */
struct rp_recover_record *rp_keep_next_record(struct rp_keep *keep);
void rp_keep_commit(struct rp_keep *keep);

/* Ends it: nothing is left to recover, the directory goes. Rings are the caller's. NULL is fine. */
void rp_keep_destroy(struct rp_keep *keep);

/* In a forked child: lets go, leaves the files to the parent. */
void rp_keep_forget(struct rp_keep *keep);

#endif
