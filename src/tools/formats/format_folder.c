/* SPDX-License-Identifier: MIT */
#include "tools/formats/format_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/tool.h"

typedef void (*folder_visit)(int folder, const char *name, const struct stat *file, void *data);

/* Call `visit` for each entry of the folder. Return: 0; -errno. */
static int visit_entries(const char *path, folder_visit visit, void *data)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	struct stat file;

	if (!folder)
		return -errno;
	while ((entry = readdir(folder)) != NULL) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (!fstatat(dirfd(folder), entry->d_name, &file, AT_SYMLINK_NOFOLLOW))
			visit(dirfd(folder), entry->d_name, &file, data);
	}
	closedir(folder);
	return 0;
}

struct folder_contents {
	uint64_t bytes;
	bool has_metadata;
	bool has_others;		/* entries that are not files */
};

/* Whether the file is the metadata of a trace in CTF, by its first bytes. */
static bool is_metadata(int folder, const char *name)
{
	static const char mark[] = "/* CTF 1.8 */";
	char begin[sizeof(mark) - 1];
	bool is = false;
	int fd;

	if (strcmp(name, "metadata") != 0)
		return false;
	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) {
		is = read(fd, begin, sizeof(begin)) == (ssize_t)sizeof(begin) &&
		     !memcmp(begin, mark, sizeof(begin));
		close(fd);
	}
	return is;
}

static void look_at(int folder, const char *name, const struct stat *file, void *data)
{
	struct folder_contents *contents = data;

	if (!S_ISREG(file->st_mode)) {
		contents->has_others = true;
		return;
	}
	contents->bytes += (uint64_t)file->st_size;
	contents->has_metadata |= is_metadata(folder, name);
}

static void remove_file(int folder, const char *name, const struct stat *file, void *data)
{
	(void)data;
	if (S_ISREG(file->st_mode))
		unlinkat(folder, name, 0);
}

int rp_format_folder_prepare(const char *path, bool force)
{
	struct folder_contents contents = { 0 };
	int ret = mkdir(path, 0700) ? -errno : 0;

	if (ret == -EEXIST && force && visit_entries(path, look_at, &contents) == 0 &&
	    contents.has_metadata && !contents.has_others)
		visit_entries(path, remove_file, NULL);
	/* rmdir(2) fails unless this is an empty folder. */
	if (ret == 0 || ret == -EEXIST)
		ret = rmdir(path) ? -EEXIST : 0;
	if (ret == -EEXIST)
		rp_tool_error("%s exists already; choose another folder by -o%s", path,
			      force ? "" : ", or give --force if it is a trace");
	else if (ret)
		rp_tool_error("cannot write %s: %s", path, strerror(-ret));
	return ret;
}

/* Extend the file, which is created if it does not exist. Return: 0; -errno. */
static int extend_file(int folder, const char *name, uint64_t bytes)
{
	const int fd = openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat file;
	int ret;

	if (fd < 0)
		return -errno;
	ret = fstat(fd, &file) ? -errno : -posix_fallocate(fd, file.st_size, (off_t)bytes);
	close(fd);
	return ret;
}

struct folder_extension {
	uint64_t bytes;
	int error;
};

static void extend_entry(int folder, const char *name, const struct stat *file, void *data)
{
	struct folder_extension *extension = data;

	if (!extension->error && S_ISREG(file->st_mode))
		extension->error = extend_file(folder, name, extension->bytes);
}

int rp_format_folder_extend(const char *path, uint64_t bytes)
{
	struct folder_extension extension = { .bytes = bytes };
	const int ret = visit_entries(path, extend_entry, &extension);

	return ret ? ret : extension.error;
}

int rp_format_folder_check_space(const char *path, uint64_t bytes)
{
	static const char name[] = ".space";
	const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int ret;

	if (folder < 0)
		return -errno;
	ret = extend_file(folder, name, bytes);
	unlinkat(folder, name, 0);
	close(folder);
	return ret;
}

uint64_t rp_format_folder_bytes(const char *path)
{
	struct folder_contents contents = { 0 };

	visit_entries(path, look_at, &contents);
	return contents.bytes;
}

void rp_format_folder_remove(const char *path)
{
	visit_entries(path, remove_file, NULL);
	rmdir(path);
}
