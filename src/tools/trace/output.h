/* SPDX-License-Identifier: MIT */
/* The output file of a trace. */
#ifndef RP_TOOL_OUTPUT_H
#define RP_TOOL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

struct rp_compressor;

struct rp_output {
	const char *path;		/* or the name in messages */
	int fd;				/* or -1 */
	int filter_fd;			/* input of a filter program that writes to fd; or -1 */
	int status_fd;			/* on which the filter program reports; or -1 */
	int copy_fd;			/* of rp_output_copy(); 0: none */
	pid_t filter_pid;		/* of the filter program */
	/*
	 * The descriptor of rp_signals_open(), for a socket, or a pipe with O_NONBLOCK. A write
	 * waits without a deadline until `is_stopping` is set, and then as long as the reader reads
	 * something every two seconds. 0: none.
	 */
	int stop_fd;
	/*
	 * Take the signals that arrive during the wait, and set `is_stopping` if they request so.
	 * Return: whether the wait ends immediately. NULL: signals stay pending, and set
	 * `is_stopping`.
	 */
	bool (*takes_signals)(void *data);
	void *signals_data;
	bool is_stopping;
	bool is_cancelled;		/* a wait was; no later one begins */
	int error;			/* errno of the first failed write of a stream; or 0 */
	bool is_socket;			/* if `stop_fd` is set */
	/* Compresses, and calls rp_output_put(); NULL: the file has the bytes as they are. */
	int (*compress)(struct rp_compressor *compressor, struct rp_output *output,
			const void *bytes, size_t size);
	struct rp_compressor *compressor;	/* of the caller */
	bool made;			/* created here; removed if nothing is written */
	bool regular;			/* a file that can be read back; not a pipe or device */
};

/*
 * Make the path while the process is still unknown: `given`, or, if that is NULL,
 * NAME_{pid}_YYYYMMDD_HHMMSS.suffix with `name` made valid in a file name. Return: the pattern, for
 * free(), or NULL without memory.
 */
char *rp_output_pattern(const char *given, const char *name, const char *suffix);

/* Whether a file would be overwritten. Pipes, devices and "-" never count as such. */
bool rp_output_is_taken(const char *path);

/*
 * Opens the file for writing, "-" for standard output. With `force` the file may exist, and keeps
 * its content until rp_output_begin(). Prints the cause of a failure. Return: 0 or -errno.
 */
int rp_output_open(struct rp_output *output, const char *path, bool force);
/*
 * Let `stop_fd`, as above, interrupt writes if the output is a socket or a pipe, or has a filter.
 * The pipe is opened again, because O_NONBLOCK would otherwise apply to all processes that share
 * it. Other outputs, and pipes that cannot be opened again, remain as they are.
 */
void rp_output_make_interruptible(struct rp_output *output, int stop_fd,
				  bool (*takes_signals)(void *data), void *data);
/* From now on, no signal interrupts writes: before the caller closes `stop_fd`. */
void rp_output_end_interruptible(struct rp_output *output);
/* Whether a process can read what is written. It is always so if the output is not a pipe. */
bool rp_output_has_reader(const struct rp_output *output);
/* Print that the reader has stopped reading, unless it has left. */
void rp_output_report_unread(const struct rp_output *output);
/* Truncates the file. Return: 0 or -errno. */
int rp_output_begin(struct rp_output *output);
/*
 * Return: 0; -ECANCELED: a signal ended the wait for a full pipe, or the pipe's reader has left;
 * other -errno, for example on a full disk: the file then holds what was written before.
 */
int rp_output_write(struct rp_output *output, const void *bytes, size_t size);
/*
 * Return: a stream that writes to the output, which must exist longer; NULL: no memory. If a write
 * fails, errno has its error.
 */
FILE *rp_output_open_stream(struct rp_output *output);
/* Whether the error, -errno, is of a file that cannot grow: by its disk, a quota or a limit. */
bool rp_output_is_full(int error);
/* Write bytes that are compressed already. Return: likewise. */
int rp_output_put(struct rp_output *output, const void *bytes, size_t size);
/* Waits for the character that the filter program writes when it is ready or done. */
bool rp_output_filter_says(struct rp_output *output, char word);
/*
 * Closes the input of the filter program, and waits until it has written the rest. Return: 0; -EIO
 * if the program failed, which it reported; -ECANCELED if a signal ended the wait: the program was
 * killed.
 */
int rp_output_filter_end(struct rp_output *output);
/*
 * Closes the file. Return: 0; -errno of a write that the file system had delayed; -EIO if the
 * filter program failed, which it reported.
 */
int rp_output_close(struct rp_output *output);
/* Closes the file, and removes it if this command created it. */
void rp_output_discard(struct rp_output *output);
/*
 * Also write to an unnamed file in `directory` from now on, because a pipe cannot be read back. A
 * copy that fails is dropped.
 */
void rp_output_copy(struct rp_output *output, const char *directory);
void rp_output_drop_copy(struct rp_output *output);

/*
 * Open an unnamed file for a part of the output: in the folder of the output if that is a regular
 * file, otherwise, or if that folder does not permit it, in `directory`. Return: a descriptor;
 * -errno.
 */
int rp_output_open_spool(const struct rp_output *output, const char *directory);

#endif
