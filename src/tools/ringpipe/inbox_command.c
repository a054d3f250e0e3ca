/* SPDX-License-Identifier: MIT */
/* ringpipe inbox -- COMMAND: executes a program with libringpipe-inbox preloaded. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/tool.h"
#include "tools/ringpipe/preload_check.h"

#define LIBRARY "libringpipe-inbox.so.1"

/* Return: the library's path, in a build or an installation, for free(); NULL, after an error. */
static char *find_library(void)
{
	static const char *const folders[] = { "../..", RP_LIBDIR_FROM_COMMAND };
	char own[PATH_MAX], path[2 * PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (size > 0 && *own == '/') {
		own[size] = '\0';
		*strrchr(own, '/') = '\0';
		for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
			char *found;

			snprintf(path, sizeof(path), "%s/%s/" LIBRARY, own, folders[i]);
			found = realpath(path, NULL);
			if (found)
				return found;
		}
	}
	rp_tool_error("inbox: %s is not installed next to this command", LIBRARY);
	return NULL;
}

/* Put the library before the other ones of LD_PRELOAD. Return: 0; -EINVAL, after an error line. */
static int set_preload(const char *library)
{
	const char *others = getenv("LD_PRELOAD");
	char *list = NULL;
	int ret;

	/* LD_PRELOAD has no way to quote the characters that separate its paths. */
	if (strpbrk(library, ": ")) {
		rp_tool_error("inbox: %s cannot be preloaded, because its path has a blank or a "
			      "colon", library);
		return -EINVAL;
	}
	ret = asprintf(&list, "%s%s%s", library, others && *others ? ":" : "",
		       others ? others : "");
	if (ret >= 0)
		ret = setenv("LD_PRELOAD", list, 1);
	if (ret < 0) {
		rp_tool_error("out of memory");
		return -EINVAL;
	}
	free(list);
	return 0;
}

static int run(const char *library, const char *path, char **arguments)
{
	if (rp_preload_check(path) || set_preload(library))
		return RP_EXIT_FAILURE;
	execv(path, arguments);
	rp_tool_error("inbox: cannot execute %s: %s", path, strerror(errno));
	return RP_EXIT_FAILURE;
}

int rp_command_inbox(const struct rp_tool_options *options)
{
	char *library, *path;
	int status = RP_EXIT_FAILURE;

	if (!options->child) {
		rp_tool_error("inbox: give the command after --");
		return RP_EXIT_USAGE;
	}
	library = find_library();
	if (!library)
		return RP_EXIT_FAILURE;
	path = rp_preload_find(options->operands[0]);
	if (path)
		status = run(library, path, options->operands);
	else
		rp_tool_error("inbox: %s: %s", options->operands[0], strerror(errno));
	free(path);
	free(library);
	return status;
}
