/* SPDX-License-Identifier: MIT */
/* A trace that a command reads, which may be compressed, or perf.data; see perf_data.h. */
#ifndef RP_TOOL_INPUT_H
#define RP_TOOL_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ringpipe/reader.h>

#include "tools/trace/frame_table.h"

struct rp_input {
	const char *path;		/* for messages: the path, or "standard input" */
	int fd;
	int signal_fd;			/* reading ends when it is readable; or -1 */
	uint64_t bytes;			/* of a regular file, else 0 */
	uint64_t taken;			/* bytes read */
	struct rp_decompressor *decompressor;	/* NULL: the file is not compressed */
	struct rp_frame_table frames;	/* of a compressed file; empty: it cannot seek */
	uint8_t start[4];		/* the first bytes of the file */
	size_t start_bytes, start_given;
	bool has_start;
	bool is_converted;		/* `fd` is a trace with the events of perf.data */
	bool is_explained;		/* the cause of the failure was printed */
};

/*
 * Open a trace: a file, or standard input if `path` is "-". The trace may be compressed by zstd. If
 * it is damaged, the reader skips the damage; see rp_reader_resume_after_damage(). On failure the
 * function prints the cause. The reader keeps a pointer to `input`, so do not copy or move that
 * struct before rp_input_close().
 *
 * Return: 0; -EOPNOTSUPP: compressed, and this build has no zstd; -ECANCELED: `signal_fd` became
 * readable; otherwise as rp_reader_open().
 */
int rp_input_open(struct rp_input *input, const char *path, int signal_fd,
		  struct rp_reader **ret_reader);

/* The same with a reader that stops at the first damage. */
int rp_input_open_undamaged(struct rp_input *input, const char *path, int signal_fd,
			    struct rp_reader **ret_reader);

/* Open a trace for rp_input_read(). Print the cause of a failure. Return: 0; -errno of open(2). */
int rp_input_open_bytes(struct rp_input *input, const char *path, int signal_fd);

/*
 * Read the next bytes of the trace, decompressed.
 * Return: the number of bytes; 0 at the end; -ECANCELED: `signal_fd` became readable; other -errno.
 */
ssize_t rp_input_read(void *input, void *buffer, size_t size);

/* Return: whether the reader can seek in this trace, of which bytes were read. */
bool rp_input_can_seek(const struct rp_input *input);

/* Call it after rp_reader_close(). */
void rp_input_close(struct rp_input *input);

/*
 * Explain `error`, the result of reading the trace, and the damage that the reader skipped. Return:
 * NULL if the trace was read completely; otherwise a sentence for the user, in `buffer`.
 */
const char *rp_input_explain(const struct rp_reader *reader, int error, char *buffer, size_t size);

/* Return which events a reader of an incomplete or damaged trace has given, as words for a user. */
const char *rp_input_given(const struct rp_reader *reader);

#endif
