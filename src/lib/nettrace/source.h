/* SPDX-License-Identifier: MIT */
/* The source of a reader's bytes: a descriptor, a function or memory. */
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

/* Continue to read at this offset of the stream. Return: 0; -ESPIPE: it cannot; other -errno. */
typedef int (*rp_byte_source_seek_to)(void *data, uint64_t offset);

struct rp_byte_source {
	int fd;			/* -1: a function or memory */
	rp_byte_source_read read;	/* or NULL */
	rp_byte_source_seek_to seek;	/* of a function; NULL: it cannot seek */
	/* Whether `read` would return without a wait; NULL: always. */
	bool (*is_ready)(void *data);
	void *data;		/* argument of the functions */
	const uint8_t *bytes;	/* memory, or `buffer` */
	uint8_t *buffer;
	size_t start, end;	/* the bytes that are present and not yet taken */
	bool is_marked;
	size_t marked;		/* bytes before `start` since the mark */
	size_t capacity;
	uint64_t offset;	/* in the stream, of the byte at `start` */
	uint64_t limit;		/* read no further ahead than this offset; 0: no limit */
};

void rp_byte_source_init_fd(struct rp_byte_source *source, int fd);
void rp_byte_source_init_read(struct rp_byte_source *source, rp_byte_source_read read, void *data);
void rp_byte_source_init_memory(struct rp_byte_source *source, const void *bytes, size_t size);
void rp_byte_source_fini(struct rp_byte_source *source);

/*
 * Take the next `size` bytes, valid until the next call. The buffer grows only as bytes arrive, so
 * a wrong `size` in a damaged file costs no memory.
 *
 * Return: 0; -ENODATA: the stream ends earlier, and nothing was taken; -ENOMEM; -errno of read(2)
 * or of the function.
 */
int rp_byte_source_take(struct rp_byte_source *source, size_t size, const uint8_t **ret_bytes);

/*
 * Make the next `size` bytes present without taking them; they begin at `bytes + start`.
 *
 * Return: 0; -ENODATA: the stream ends earlier; -ENOMEM; -errno of read(2) or of the function.
 */
int rp_byte_source_peek(struct rp_byte_source *source, size_t size);

/* Whether rp_byte_source_peek() can look beyond the bytes that are present without a wait. */
bool rp_byte_source_is_ready(const struct rp_byte_source *source);

/* Mark the offset that rp_byte_source_rewind() returns to. */
void rp_byte_source_mark(struct rp_byte_source *source);
void rp_byte_source_rewind(struct rp_byte_source *source);

/*
 * Skip to an offset at or after the current one. A failure leaves the source as it was.
 *
 * Return: 0; -ESPIPE: the source is a pipe, or cannot seek for another reason; -errno of lseek(2)
 * or of the function.
 */
int rp_byte_source_seek(struct rp_byte_source *source, uint64_t offset);

/* Take all bytes that are already present. Call it after -ENODATA. Return: their number. */
size_t rp_byte_source_take_rest(struct rp_byte_source *source, const uint8_t **ret_bytes);

#endif
