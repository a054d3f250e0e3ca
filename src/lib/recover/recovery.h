/* SPDX-License-Identifier: MIT */
/*
 * The directory of a session that a killed process left, and its conversion to a trace. All its
 * content is untrusted until it is checked.
 */
#ifndef RP_RECOVER_RECOVERY_H
#define RP_RECOVER_RECOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recover/recovery_format.h"

enum rp_recovery_state {
	RP_RECOVERY_RUNNING,		/* a process maps the session */
	RP_RECOVERY_LEFT,		/* no process maps it: there is something to recover */
	RP_RECOVERY_EMPTY,		/* no process maps it; it did not begin, or has ended */
};

/* The bytes of the files. All on the heap. */
struct rp_recovery_file {
	uint8_t *bytes;
	size_t size;
};

struct rp_recovery {
	struct rp_recovery_file session, events;
	struct rp_recovery_file *rings;
	size_t ring_count;
};

/*
 * Find out whether a process still writes, and read the head. Texts of `ret_head` are terminated.
 * Return: 0; -ENOENT: no directory of a session; -EBADMSG: a damaged one, or of another version;
 * what open(2) says.
 */
int rp_recovery_look(int directory_fd, enum rp_recovery_state *ret_state,
		     struct rp_recover_header *ret_head);

/* Reads all files. Return: 0; -EFBIG; -ENOMEM; as rp_recovery_look(). */
int rp_recovery_read(int directory_fd, struct rp_recovery *ret_recovery);
void rp_recovery_fini(struct rp_recovery *recovery);

/* Removes a session's directory, not following links, and nothing in it that is none of ours. */
int rp_recovery_remove(int parent_fd, const char *name);

struct rp_recovery_result {
	uint64_t copied_bytes;		/* of the output */
	uint64_t before;		/* events in these */
	uint64_t recovered;		/* events from the rings */
	uint64_t unknown;		/* left out: their definition is missing */
	uint64_t damaged;		/* places where a ring made no sense up to its head */
	uint64_t lost;			/* as the session counted */
	uint64_t from_ns, to_ns;	/* of a flight recorder, when it is complete; else 0 */
	uint64_t start_ns;		/* a moment on their clock, CLOCK_MONOTONIC, … */
	int64_t start_utc_ns;		/* and in UTC */
	bool has_output;		/* what the process had written by itself is in the trace */
};

/*
 * Writes the trace to an empty regular file that can be read too. `output_fd`: the session's
 * output, or -1 where that is gone.
 * Return: 0; -EBADMSG: the directory makes no sense; what write(2) says; -ENOMEM.
 */
int rp_recovery_write(const struct rp_recovery *recovery, int output_fd, int fd,
		      struct rp_recovery_result *ret_result);

#endif
