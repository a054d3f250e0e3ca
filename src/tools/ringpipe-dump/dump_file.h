/* SPDX-License-Identifier: MIT */
/* The file of a dump, which appears only when it is complete. */
#ifndef RP_DUMP_DUMP_FILE_H
#define RP_DUMP_DUMP_FILE_H

#include <limits.h>
#include <stdbool.h>

struct rp_dump_output {
	const char *path;
	char part[PATH_MAX];		/* temporary name, if the file system needs one */
	bool has_name;
	int fd;
};

/*
 * Creates a file of mode 0600 in the folder of `path`. It has no name; where the file system does
 * not support that, it has the name `part`. A file at `path` stays unchanged until
 * rp_dump_output_publish().
 *
 * Return: 0; -EISDIR, -EEXIST: a folder or another non-regular file is there; -ENAMETOOLONG; errors
 * of open(2).
 */
int rp_dump_output_open(struct rp_dump_output *output, const char *path);

/*
 * Give the finished file, which has no name so far, the path of rp_dump_output_open(). A file with
 * this path is replaced. Return: 0; -errno of link(2) or rename(2).
 */
int rp_dump_output_publish(struct rp_dump_output *output);

/* Close the file; a file that was not published disappears. */
void rp_dump_output_close(struct rp_dump_output *output);

#endif
