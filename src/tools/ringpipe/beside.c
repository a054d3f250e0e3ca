/* SPDX-License-Identifier: MIT */
/*
 * Commands that are programs of their own, because of the libraries they need: ringpipe bpf
 * executes ringpipe-bpf (libbpf), ringpipe record executes ringpipe-record (elfutils). Then the
 * command itself needs none of these libraries.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/ringpipe/tool.h"

/* Looks in this command's own folder (a build), then in libexecdir, relative to bindir. */
static int run_beside(const char *program, char **arguments)
{
	char path[PATH_MAX + sizeof(RP_LIBEXEC_FROM_COMMAND) + 64], own[PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (size < 0)
		return -errno;
	own[size] = '\0';
	*strrchr(own, '/') = '\0';
	snprintf(path, sizeof(path), "%s/../%s/%s", own, program, program);
	execv(path, arguments);
	if (errno == ENOENT) {
		snprintf(path, sizeof(path), "%s/" RP_LIBEXEC_FROM_COMMAND "/%s", own, program);
		execv(path, arguments);
	}
	return -errno;
}

/*
 * The arguments of this process from the command's name on, which becomes the program's name.
 * main() has already parsed the options, so the program must parse the original words again.
 * Return: an array that ends with NULL; or NULL.
 */
static char **read_arguments(const char *program)
{
	FILE *file = fopen("/proc/self/cmdline", "re");
	char **arguments = NULL, *word = NULL;
	size_t count = 0, space = 0;

	while (file && getdelim(&word, &space, '\0', file) > 0) {
		char **grown = reallocarray(arguments, count + 2, sizeof(*grown));

		if (!grown)
			break;
		arguments = grown;
		arguments[count++] = word;
		arguments[count] = NULL;
		word = NULL;
		space = 0;
	}
	free(word);
	if (file)
		fclose(file);
	if (count < 2) {
		errno = file ? ENOMEM : errno;
		return NULL;
	}
	arguments[1] = (char *)program;
	return arguments;
}

static int run(const char *command, const char *program, const char *library)
{
	char **arguments = read_arguments(program);
	int ret = arguments ? run_beside(program, arguments + 1) : -errno;

	if (ret == -ENOENT)
		rp_tool_error("%s: %s is not installed; ringpipe was built without %s", command,
			      program, library);
	else
		rp_tool_error("%s: cannot run %s: %s", command, program, strerror(-ret));
	return RP_EXIT_FAILURE;
}

int rp_command_bpf(const struct rp_tool_options *options)
{
	(void)options;
	return run("bpf", "ringpipe-bpf", "libbpf");
}

int rp_command_record(const struct rp_tool_options *options)
{
	(void)options;
	return run("record", "ringpipe-record", "elfutils, or not for x86-64");
}
