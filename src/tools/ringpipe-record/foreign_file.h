/* SPDX-License-Identifier: MIT */
/*
 * Files of other processes, in file systems that other processes may serve. A server that does not
 * answer must not stop the recorder.
 */
#ifndef RP_RECORD_FOREIGN_FILE_H
#define RP_RECORD_FOREIGN_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The time for a file, and the memory for copies of files. A unit test changes these. */
extern struct rp_foreign_file_limits {
	uint64_t wait_ns;		/* until a file is open */
	uint64_t copy_bytes;		/* of one copy */
	uint64_t copies_bytes;		/* of all copies of a recording */
	bool copies_all;		/* other files, too */
} rp_foreign_file_limits;

/*
 * Open a regular file for reading, in one second at most. The descriptor of a file that a server
 * provides (FUSE, NFS and others) leads to a copy of it in memory, so later reads do not wait.
 * @flags: further flags of open(2).
 * @process: the process whose file it is.
 * @device: of the file, as major << 20 | minor; 0: unknown. After a device or, if it is unknown, a
 * process made a call wait for longer, further calls fail as long as that call waits.
 * @ret_file: what fstat(2) returns for the file.
 *
 * Return: a descriptor; -1: there is no such file, it is not regular, it did not answer in time, or
 * a server provides it and it is larger than 64 MB, or all such copies would be larger than 256 MB.
 */
int rp_foreign_file_open(const char *path, int flags, pid_t process, uint64_t device,
			 struct stat *ret_file);

/*
 * Open the debug file of a file in the same way.
 * @device: of that file; 0: unknown. After a debug file made a call wait for longer, further calls
 * for files of this device fail as long as that call waits.
 * Return: a descriptor, which the caller closes before it opens the next one; -1.
 */
int rp_foreign_file_open_debug(const char *path, uint64_t device);

#endif
