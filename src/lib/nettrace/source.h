/* SPDX-License-Identifier: MIT */
/* Where a reader's bytes come from: a descriptor, a function or memory. */
#ifndef RP_NETTRACE_SOURCE_H
#define RP_NETTRACE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Put up to `size` bytes into `buffer`. Return: their number; 0: the stream ends; -errno.
 */
typedef ssize_t (*rp_byte_source_read)(void *data, void *buffer, size_t size);

struct rp_byte_source {
	int fd;			/* -1: a function or memory */
	rp_byte_source_read read;	/* or NULL */
	void *data;		/* the function's */
	const uint8_t *bytes;	/* memory, or `buffer` */
	uint8_t *buffer;
	size_t start, end;	/* what is there and not yet taken */
	bool is_marked;
	size_t marked;		/* bytes before `start` that rp_byte_source_rewind() gives back */
	size_t capacity;
	uint64_t offset;	/* in the stream, of what comes next */
};

void rp_byte_source_init_fd(struct rp_byte_source *source, int fd);
void rp_byte_source_init_read(struct rp_byte_source *source, rp_byte_source_read read, void *data);
void rp_byte_source_init_memory(struct rp_byte_source *source, const void *bytes, size_t size);
void rp_byte_source_fini(struct rp_byte_source *source);

/*
 * The next `size` bytes, valid until the next call. Allocates as bytes arrive, not as they are
 * announced.
 *
 * Return: 0; -ENODATA: the stream ends before, and nothing was taken; -ENOMEM; what read(2) or the
 * function said.
 */
int rp_byte_source_take(struct rp_byte_source *source, size_t size, const uint8_t **ret_bytes);

/* Mark the offset that rp_byte_source_rewind() returns to. */
void rp_byte_source_mark(struct rp_byte_source *source);
void rp_byte_source_rewind(struct rp_byte_source *source);

/* Takes whatever is there already; used after -ENODATA. */
size_t rp_byte_source_take_rest(struct rp_byte_source *source, const uint8_t **ret_bytes);

#endif
