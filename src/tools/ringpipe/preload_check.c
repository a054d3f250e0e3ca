/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/preload_check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/cli/tool.h"

#define SCRIPTS_MAX 5			/* interpreters of interpreters, as in the kernel */
#define LINE_MAX_BYTES 256		/* of the first line of a script, as in the kernel */
#define SEGMENTS_MAX 256

static int refuse(const char *path, const char *reason)
{
	rp_tool_error("inbox: %s: %s", path, reason);
	return -EINVAL;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static char *join(const char *folder, size_t length, const char *name)
{
	char *path = NULL;

	if (asprintf(&path, "%.*s%s%s", (int)length, folder, length ? "/" : "", name) < 0)
		return NULL;
	return path;
}

char *rp_preload_find(const char *name)
{
	const char *folder = getenv("PATH");
	size_t length;

	if (strchr(name, '/'))
		return strdup(name);
	if (!folder)
		folder = "/bin:/usr/bin";
	for (;; folder += length + 1) {
		struct stat status;
		char *path;

		length = strcspn(folder, ":");
		path = join(folder, length, name);
		if (path && access(path, X_OK) == 0 && stat(path, &status) == 0 &&
		    S_ISREG(status.st_mode))
			return path;
		free(path);
		if (!folder[length])
			break;
	}
	errno = ENOENT;
	return NULL;
}

/* The loader ignores LD_PRELOAD in a program that gets more rights than its user has. */
static int check_rights(const char *path, int fd)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return refuse(path, strerror(errno));
	if ((status.st_mode & S_ISUID) && status.st_uid != geteuid())
		return refuse(path, "the program is set-user-ID, so the loader ignores LD_PRELOAD");
	if ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP) &&
	    status.st_gid != getegid())
		return refuse(path, "the program is set-group-ID, so the loader ignores "
			      "LD_PRELOAD");
	if (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return refuse(path, "the file has capabilities, so the loader ignores LD_PRELOAD");
	return 0;
}

static int check_loader(const char *path, const char *loader)
{
	char reason[PATH_MAX + 128];

	if (!strncmp(base_of(loader), "ld-linux", 8))
		return 0;
	snprintf(reason, sizeof(reason), "the program uses %s (%s), and libringpipe-inbox needs "
		 "glibc", !strncmp(base_of(loader), "ld-musl", 7) ? "musl" : "another C library",
		 loader);
	return refuse(path, reason);
}

static int check_elf(const char *path, int fd, const ElfW(Ehdr) *header)
{
	const unsigned char class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
	char loader[PATH_MAX];
	ElfW(Ehdr) own;
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bool is_known = self >= 0 && read(self, &own, sizeof(own)) == (ssize_t)sizeof(own);

	if (self >= 0)
		close(self);
	if (header->e_ident[EI_CLASS] != class ||
	    (is_known && header->e_machine != own.e_machine))
		return refuse(path, "the program is for another architecture than "
			      "libringpipe-inbox");
	if (header->e_phentsize != sizeof(ElfW(Phdr)) || header->e_phnum > SEGMENTS_MAX)
		return refuse(path, "the headers of the program are invalid");
	for (unsigned int i = 0; i < header->e_phnum; i++) {
		ElfW(Phdr) segment;
		ssize_t got = pread(fd, &segment, sizeof(segment),
				    (off_t)(header->e_phoff + i * sizeof(segment)));

		if (got != (ssize_t)sizeof(segment))
			return refuse(path, "the headers of the program are invalid");
		if (segment.p_type != PT_INTERP)
			continue;
		if (segment.p_filesz == 0 || segment.p_filesz > sizeof(loader) ||
		    pread(fd, loader, segment.p_filesz, (off_t)segment.p_offset) !=
		    (ssize_t)segment.p_filesz)
			return refuse(path, "the headers of the program are invalid");
		loader[segment.p_filesz - 1] = '\0';
		return check_loader(path, loader);
	}
	return refuse(path, "the program is linked statically, so it has no loader that could "
		      "load libringpipe-inbox");
}

static int check_program(const char *path, int depth);

/* Options of env(1) whose argument is the next word. */
static bool takes_word(const char *option)
{
	return !strcmp(option, "-u") || !strcmp(option, "--unset") || !strcmp(option, "-C") ||
	       !strcmp(option, "--chdir");
}

/* The program that env(1) runs: its first argument that is neither an option nor a variable. */
static int check_env(char *arguments, int depth)
{
	char *rest, *word = strtok_r(arguments, " \t", &rest);
	char *path;
	int ret;

	while (word && (*word == '-' || strchr(word, '='))) {
		if (takes_word(word))
			(void)strtok_r(NULL, " \t", &rest);
		word = strtok_r(NULL, " \t", &rest);
	}
	path = word ? rp_preload_find(word) : NULL;
	/* env(1) itself reports a program that does not exist. */
	if (!path)
		return 0;
	ret = check_program(path, depth + 1);
	free(path);
	return ret;
}

static int check_script(const char *path, char *line, int depth)
{
	char *interpreter = line + 2 + strspn(line + 2, " \t");
	char *arguments;
	int ret;

	line[strcspn(line, "\n")] = '\0';
	arguments = interpreter + strcspn(interpreter, " \t");
	if (*arguments)
		*arguments++ = '\0';
	if (!*interpreter)
		return refuse(path, "the script names no interpreter");
	ret = check_program(interpreter, depth + 1);
	if (ret == 0 && !strcmp(base_of(interpreter), "env"))
		ret = check_env(arguments, depth);
	return ret;
}

static int check_open(const char *path, int fd, int depth)
{
	union {
		char line[LINE_MAX_BYTES + 1];
		ElfW(Ehdr) elf;
	} start = { .line = "" };
	ssize_t got = pread(fd, start.line, LINE_MAX_BYTES, 0);

	if (got < 0)
		return refuse(path, strerror(errno));
	if (!strncmp(start.line, "#!", 2))
		return check_script(path, start.line, depth);
	if (got < (ssize_t)sizeof(start.elf) || memcmp(start.elf.e_ident, ELFMAG, SELFMAG) != 0)
		return refuse(path, "it is neither an ELF program nor a script with #!");
	return check_rights(path, fd) ? -EINVAL : check_elf(path, fd, &start.elf);
}

static int check_program(const char *path, int depth)
{
	int fd, ret;

	if (depth > SCRIPTS_MAX)
		return refuse(path, "too many interpreters of scripts");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* Whoever may execute a program need not be allowed to read it. */
	if (fd < 0 && errno == EACCES && access(path, X_OK) == 0)
		return 0;
	if (fd < 0)
		return refuse(path, strerror(errno));
	ret = check_open(path, fd, depth);
	close(fd);
	return ret;
}

int rp_preload_check(const char *path)
{
	return check_program(path, 0);
}
