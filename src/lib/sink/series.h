/* SPDX-License-Identifier: MIT */
/*
 * A file series is a sequence of files that share one name and differ in a number, with at least
 * six digits, before the extension. `log/trace.nettrace` becomes `log/trace.000001.nettrace` and so
 * on. rp_file_series_look() and rp_file_series_delete_oldest() read the directory at every call,
 * because other programs may delete files and earlier processes may have left some.
 */
#ifndef RP_SINK_SERIES_H
#define RP_SINK_SERIES_H

#include <stdbool.h>
#include <stdint.h>

struct rp_file_series {
	char *directory;
	char *stem;		/* start of the names, with the dot before the number */
	char *extension;	/* with its dot; or "" */
};

struct rp_file_series_state {
	uint64_t first, last;	/* lowest and highest number; 0: there is no file */
	uint64_t count;
	uint64_t bytes;
};

/* Return: 0; -EINVAL: the path names no file; -ENOMEM. */
int rp_file_series_init(struct rp_file_series *series, const char *path);
void rp_file_series_fini(struct rp_file_series *series);

/* Return: the path for free(); NULL: no memory. */
char *rp_file_series_path(const struct rp_file_series *series, uint64_t number);

/* Return: 0; -errno of opendir(3). */
int rp_file_series_look(const struct rp_file_series *series,
			struct rp_file_series_state *ret_state);

/* Delete the oldest file before `number`. Return: whether a file was deleted. */
bool rp_file_series_delete_oldest(const struct rp_file_series *series, uint64_t number);

/*
 * Check that no session writes the newest file, by the lock of rp_sink_open_path(). Return: 0;
 * -EBUSY: another session writes it; -ENOMEM.
 */
int rp_file_series_check_free(const struct rp_file_series *series,
			      const struct rp_file_series_state *state);

#endif
