/* SPDX-License-Identifier: MIT */
/*
 * Files of one series: the name of a single file, with a number of six digits or more before its
 * extension. `log/trace.nettrace` makes `log/trace.000001.nettrace` and so on. The functions read
 * the directory each time: other programs may delete files, and earlier processes left some.
 */
#ifndef RP_SINK_SERIES_H
#define RP_SINK_SERIES_H

#include <stdbool.h>
#include <stdint.h>

struct rp_file_series {
	char *directory;
	char *stem;		/* of names, the dot before the number included */
	char *extension;	/* with its dot, or "" */
};

struct rp_file_series_state {
	uint64_t first, last;	/* numbers; 0: there is no file */
	uint64_t count;
	uint64_t bytes;
};

/* 0; -EINVAL for a path that names no file; -ENOMEM. */
int rp_file_series_init(struct rp_file_series *series, const char *path);
void rp_file_series_fini(struct rp_file_series *series);

/* NULL without memory. */
char *rp_file_series_path(const struct rp_file_series *series, uint64_t number);

/* 0, or what opendir(3) said. */
int rp_file_series_look(const struct rp_file_series *series,
			struct rp_file_series_state *ret_state);

/* Delete the oldest file before `number`. Return: whether a file was deleted. */
bool rp_file_series_delete_oldest(const struct rp_file_series *series, uint64_t number);

/* -EBUSY if another session writes the newest file, by the lock of rp_sink_open_path(). */
int rp_file_series_check_free(const struct rp_file_series *series,
			      const struct rp_file_series_state *state);

#endif
