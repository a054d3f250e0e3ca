/* SPDX-License-Identifier: MIT */
/* A trace that a command writes from other traces; zstd compresses it if its name ends in .zst. */
#ifndef RP_TOOL_TRACE_OUTPUT_H
#define RP_TOOL_TRACE_OUTPUT_H

#include <stdint.h>

#include "tools/trace/output.h"

struct rp_trace_output {
	struct rp_output output;
	struct rp_compressor *compressor;	/* or NULL */
	uint64_t compressed_bytes;		/* after rp_trace_output_close() */
};

/* Open the file. Prints the cause of a failure. Return: 0; -errno. */
int rp_trace_output_open(struct rp_trace_output *output, const char *path, bool force);

/*
 * Let a signal end a write into a full pipe: the command's write then fails with -ECANCELED.
 * `signal_fd` is of rp_signals_open().
 */
void rp_trace_output_make_interruptible(struct rp_trace_output *output, int signal_fd);

/* Return: whether the output is the file `fd`, which an error line then states. */
bool rp_trace_output_is_input(const struct rp_trace_output *output, int fd);

/* Write the rest, and close the file. Return: 0; -errno: the caller discards it. */
int rp_trace_output_close(struct rp_trace_output *output);

/* Close the file, and remove it if it was created. */
void rp_trace_output_discard(struct rp_trace_output *output);

/* Free the memory; the file has been closed. */
void rp_trace_output_fini(struct rp_trace_output *output);

#endif
