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

/* The same of what stands at a path, which is not followed where it is a link. */
void rp_file_identify_path(const char *path, struct rp_file_id *ret_id);
bool rp_file_is_at(const char *path, const struct rp_file_id *id);

#endif
