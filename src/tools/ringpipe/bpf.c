/* SPDX-License-Identifier: MIT */
/*
 * ringpipe bpf: executes the program ringpipe-bpf, which needs libbpf, where that program is
 * installed.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/ringpipe/tool.h"

#define PROGRAM "ringpipe-bpf"

/* Looks in this command's own folder (a build), then in libexecdir, relative to bindir. */
static int run_beside(char **arguments)
{
	static const char *const places[] = {
		"/../ringpipe-bpf/" PROGRAM, "/" RP_LIBEXEC_FROM_COMMAND "/" PROGRAM,
	};
	char path[PATH_MAX + sizeof(RP_LIBEXEC_FROM_COMMAND) + 32], own[PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (size < 0)
		return -errno;
	own[size] = '\0';
	*strrchr(own, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", own, places[i]);
		execv(path, arguments);
		if (errno != ENOENT)
			return -errno;
	}
	return -ENOENT;
}

/*
 * The arguments of this process from `bpf` on, with `bpf` replaced by the program's name. main()
 * has already parsed the options, so the program must parse the original words again. Return: an
 * array that ends with NULL; or NULL.
 */
static char **read_arguments(void)
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
	arguments[1] = (char *)PROGRAM;
	return arguments;
}

int rp_command_bpf(const struct rp_tool_options *options)
{
	char **arguments = read_arguments();
	int ret = arguments ? run_beside(arguments + 1) : -errno;

	(void)options;
	if (ret == -ENOENT)
		rp_tool_error("bpf: " PROGRAM " is not installed; ringpipe was built without "
			      "libbpf");
	else
		rp_tool_error("bpf: cannot run " PROGRAM ": %s", strerror(-ret));
	return RP_EXIT_FAILURE;
}
