/* SPDX-License-Identifier: MIT */
/*
 * Reads the directory of a session that a killed process left, and converts it to a trace. All its
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
	RP_RECOVERY_LEFT,		/* no process maps it: recovery can rebuild its trace */
	RP_RECOVERY_EMPTY,		/* not mapped; the session did not begin, or has ended */
};

/* The bytes of a file, on the heap. */
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
 * Find out whether a process still writes, and read the header. Texts in `ret_header` are
 * terminated. Return: 0; -ENOENT: the directory is not a session's; -EBADMSG: it is damaged or has
 * another version; -errno of open(2), fcntl(2) or pread(2).
 */
int rp_recovery_look(int directory_fd, enum rp_recovery_state *ret_state,
		     struct rp_recover_header *ret_header);

/*
 * Read all files. Return: 0; -EFBIG: a file is too large; -EBADMSG: there are too many rings, or a
 * file is not regular; -ENOMEM; -errno of open(2) or pread(2).
 */
int rp_recovery_read(int directory_fd, struct rp_recovery *ret_recovery);
void rp_recovery_fini(struct rp_recovery *recovery);

/*
 * Remove a session's directory. Other files in it are not deleted, and symbolic links are not
 * followed.
 */
int rp_recovery_remove(int parent_fd, const char *name);

struct rp_recovery_result {
	uint64_t copied_bytes;		/* bytes copied from the output */
	uint64_t before;		/* events in the copied bytes */
	uint64_t recovered;		/* events from the rings */
	uint64_t unknown;		/* events without a sound definition */
	uint64_t damaged;		/* number of inconsistent places in the rings */
	uint64_t lost;			/* losses that the session counted */
	uint64_t from_ns, to_ns;	/* when a flight recorder is complete */
	uint64_t start_ns;		/* the session's start by CLOCK_MONOTONIC, … */
	int64_t start_utc_ns;		/* … and in UTC */
	bool has_window;		/* a flight recorder: the trace has from_ns and to_ns */
	bool has_output;		/* the trace has the output that the process wrote */
};

/*
 * Write the trace to an empty regular file that is open for reading and writing. `output_fd`: the
 * session's output, or -1 if the output does not exist any more.
 * Return: 0; -EBADMSG: the directory is inconsistent; -errno of write(2); -ENOMEM.
 */
int rp_recovery_write(const struct rp_recovery *recovery, int output_fd, int fd,
		      struct rp_recovery_result *ret_result);

#endif
