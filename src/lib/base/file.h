/* SPDX-License-Identifier: MIT */
/* Small files read whole, and writes that go through. */
#ifndef RP_BASE_FILE_H
#define RP_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads up to `size` bytes of a file. Return: the bytes, or -errno. */
ssize_t rp_file_read(const char *path, void *buffer, size_t size);

/*
 * Which open file a descriptor stood for. Hosts close descriptors that are not theirs, by
 * closefrom() or dup2(), and use the numbers again: what they have there then is not ours to write
 * to or close. All eventfds and epoll sets share one identity; sockets, pipes and files do not.
 */
struct rp_file_id {
	uint64_t device, inode;
};

/* Return: 0; -errno of fstat(2), with zeros, which no file has. */
int rp_file_identify(int fd, struct rp_file_id *ret_id);

/*
 * Whether it still stands for that. A file that cannot be looked at right now, as on a network, is
 * no other one.
 */
bool rp_file_is(int fd, const struct rp_file_id *id);

/* As rp_file_is(), with the file's size; UINT64_MAX: unknown. Return: 0; -EBADF: another file. */
int rp_file_check(int fd, const struct rp_file_id *id, uint64_t *ret_bytes);

/* Reads the path of an open file from /proc. Return: a string for free(), or NULL. */
char *rp_file_path(int fd);

/*
 * Lock an open file until the last descriptor of that opening is closed, those of forked children
 * included. `type` is F_WRLCK for the writer, or F_RDLCK to find out about one. By fcntl(2), which
 * every filter of system calls has to allow, where flock(2) is rare.
 *
 * Return: 0, also where the file system has no locks; -EBUSY: another opening has it locked.
 */
int rp_file_lock(int fd, short type);

/* The same of what stands at a path, which is not followed where it is a link. */
void rp_file_identify_path(const char *path, struct rp_file_id *ret_id);
bool rp_file_is_at(const char *path, const struct rp_file_id *id);

#endif
