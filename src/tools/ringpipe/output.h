/* SPDX-License-Identifier: MIT */
/* The file that a trace goes to. */
#ifndef RP_TOOL_OUTPUT_H
#define RP_TOOL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct rp_output {
	const char *path;		/* or what messages call it */
	int fd;				/* or -1 */
	int filter_fd;			/* to a program that writes to fd what it gets; or -1 */
	int status_fd;			/* that program's word; or -1 */
	bool made;			/* by us: to be removed again if nothing comes */
	bool regular;			/* a file that can be read again; not a pipe or device */
};

/*
 * The path before the process is known: `given`, or, when that is NULL,
 * NAME_{pid}_YYYYMMDD_HHMMSS.suffix with `name` made fit for a file name.
 * Return: the pattern, for free(), or NULL without memory.
 */
char *rp_output_pattern(const char *given, const char *name, const char *suffix);

/*
 * The pattern with its first {pid} replaced.
 * Return: the path, for free(), or NULL without memory.
 */
char *rp_output_expand(const char *pattern, pid_t pid);

/* Whether there is a file that would be overwritten: not so of pipes, devices, and "-". */
bool rp_output_is_taken(const char *path);

/*
 * Opens the file for writing, "-" for standard output; with `force` it may exist, and keeps its
 * content until rp_output_begin(). Says on stderr why it cannot. Return: 0 or -errno.
 */
int rp_output_open(struct rp_output *output, const char *path, bool force);
/* Empties what was there. Return: 0 or -errno. */
int rp_output_begin(struct rp_output *output);
/* Return: 0; -errno, when the disk is full for one: the file holds what went in before. */
int rp_output_write(struct rp_output *output, const void *bytes, size_t size);
/* Waits for a character that the program between says when it is ready or done. */
bool rp_output_filter_says(struct rp_output *output, char word);
/* No more for the program between. Return: 0; -EIO: it failed, having said so. */
int rp_output_filter_end(struct rp_output *output);
/*
 * Closes. Return: 0, or -errno of a write that the file system had put off; -EIO if the program
 * between failed, which has said so.
 */
int rp_output_close(struct rp_output *output);
/* Closes, and removes the file if we made it. */
void rp_output_discard(struct rp_output *output);

#endif
