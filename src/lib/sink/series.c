/* SPDX-License-Identifier: MIT */
#include "sink/series.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file.h"

#define DIGITS_MIN 6u
#define DIGITS_MAX 18u

int rp_file_series_init(struct rp_file_series *series, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *dot = strrchr(name, '.');
	size_t stem_bytes = dot && dot != name ? (size_t)(dot - name) : strlen(name);

	if (!*name)
		return -EINVAL;
	series->directory = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) :
			    strdup(".");
	if (asprintf(&series->stem, "%.*s.", (int)stem_bytes, name) < 0)
		series->stem = NULL;
	series->extension = strdup(name + stem_bytes);
	if (series->directory && series->stem && series->extension)
		return 0;
	rp_file_series_fini(series);
	return -ENOMEM;
}

void rp_file_series_fini(struct rp_file_series *series)
{
	free(series->directory);
	free(series->stem);
	free(series->extension);
}

char *rp_file_series_path(const struct rp_file_series *series, uint64_t number)
{
	char *path;

	if (asprintf(&path, "%s/%s%0*" PRIu64 "%s", series->directory, series->stem,
		     (int)DIGITS_MIN, number, series->extension) < 0)
		return NULL;
	return path;
}

/* The number in a file's name; 0: the file is not part of the series. */
static uint64_t number_of(const struct rp_file_series *series, const char *name)
{
	size_t stem_bytes = strlen(series->stem), digits;

	if (strncmp(name, series->stem, stem_bytes) != 0)
		return 0;
	name += stem_bytes;
	digits = strspn(name, "0123456789");
	if (digits < DIGITS_MIN || digits > DIGITS_MAX ||
	    (digits > DIGITS_MIN && *name == '0') ||
	    strcmp(name + digits, series->extension) != 0)
		return 0;
	return strtoull(name, NULL, 10);
}

int rp_file_series_look(const struct rp_file_series *series, struct rp_file_series_state *ret_state)
{
	DIR *directory = opendir(series->directory);
	struct rp_file_series_state state = { 0 };
	struct dirent *entry;

	if (!directory)
		return rp_failed("opendir");
	while ((entry = readdir(directory)) != NULL) {
		uint64_t number = number_of(series, entry->d_name);
		struct stat file;

		if (number == 0 || fstatat(dirfd(directory), entry->d_name, &file,
					   AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if (state.first == 0 || number < state.first)
			state.first = number;
		if (number > state.last)
			state.last = number;
		state.count++;
		state.bytes += (uint64_t)file.st_size;
	}
	closedir(directory);
	*ret_state = state;
	return 0;
}

bool rp_file_series_delete_oldest(const struct rp_file_series *series, uint64_t number)
{
	struct rp_file_series_state state;
	bool deleted = false;
	char *path;

	if (rp_file_series_look(series, &state) != 0 || state.first == 0 || state.first >= number)
		return false;
	path = rp_file_series_path(series, state.first);
	if (path)
		deleted = unlink(path) == 0 || errno == ENOENT;
	free(path);
	return deleted;
}

int rp_file_series_check_free(const struct rp_file_series *series,
			      const struct rp_file_series_state *state)
{
	char *path;
	int fd, ret = 0;

	if (state->last == 0)
		return 0;
	path = rp_file_series_path(series, state->last);
	if (!path)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0)
		ret = rp_file_lock(fd, F_RDLCK);
	if (fd >= 0)
		close(fd);
	free(path);
	return ret;
}
