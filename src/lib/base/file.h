/* SPDX-License-Identifier: MIT */
/* Reads and writes files, and identifies and locks open files. */
#ifndef RP_BASE_FILE_H
#define RP_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Read up to `size` bytes of a file. Return: the number of bytes, or -errno. */
ssize_t rp_file_read(const char *path, void *buffer, size_t size);

/*
 * Write all bytes to a blocking descriptor, and retry after signals.
 *
 * Return: 0; -errno of write(2), after part of the bytes may have been written.
 */
int rp_file_write(int fd, const void *bytes, size_t size);

/* Return: whether the results of stat(2) are of one file. */
static inline bool rp_file_is_same(const struct stat *one, const struct stat *two)
{
	return one->st_dev == two->st_dev && one->st_ino == two->st_ino;
}

/*
 * The identity of the open file behind a descriptor. Hosts close descriptors of others with
 * closefrom() or dup2() and reuse the numbers. The library must not write to or close the host's
 * file under such a number. All eventfds and epoll sets share one identity; sockets, pipes and
 * files do not.
 */
struct rp_file_id {
	uint64_t device, inode;
};

/* Return: 0; -errno of fstat(2), with a zeroed identity, which no file has. */
int rp_file_identify(int fd, struct rp_file_id *ret_id);

/*
 * Return: whether the descriptor still refers to that file. If fstat(2) fails for another reason
 * than a closed descriptor, as on a network file system, the file counts as unchanged.
 */
bool rp_file_is(int fd, const struct rp_file_id *id);

/* As rp_file_is(), with the file's size; UINT64_MAX: unknown. Return: 0; -EBADF: another file. */
int rp_file_check(int fd, const struct rp_file_id *id, uint64_t *ret_bytes);

/* Get the path of an open file from /proc. Return: a string for free(), or NULL. */
char *rp_file_path(int fd);

/*
 * Lock an open file until the last descriptor of its open file description is closed, those of
 * forked children included. `type` is F_WRLCK for the writer, or F_RDLCK to test for a writer,
 * which holds a read lock. The function does not wait. The lock uses fcntl(2), because seccomp
 * filters rarely allow flock(2).
 *
 * Return: 0, also if the file system has no locks; -EBUSY: another open file description has a
 * conflicting lock.
 */
int rp_file_lock(int fd, short type);

/* Identify the file at a path, without following a symbolic link. */
void rp_file_identify_path(const char *path, struct rp_file_id *ret_id);
bool rp_file_is_at(const char *path, const struct rp_file_id *id);

#endif
