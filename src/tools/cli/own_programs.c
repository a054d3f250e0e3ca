/* SPDX-License-Identifier: MIT */
/*
 * Commands that are separate programs, because of the libraries that they need: ringpipe bpf
 * executes ringpipe-bpf (libbpf), ringpipe record executes ringpipe-record, ringpipe symbolize
 * executes ringpipe-symbolize (both elfutils), and ringpipe gen executes ringpipe-gen (expat). The
 * command itself needs none of these libraries.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/own_programs.h"
#include "tools/cli/tool.h"

int rp_own_program_try(const char *program, int (*act)(const char *path, void *data), void *data)
{
	char path[PATH_MAX + sizeof(RP_LIBEXEC_FROM_COMMAND) + 64], own[PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", own, sizeof(own) - 1);
	int ret;

	if (size < 0)
		return -errno;
	own[size] = '\0';
	*strrchr(own, '/') = '\0';
	snprintf(path, sizeof(path), "%s/../%s/%s", own, program, program);
	ret = act(path, data);
	if (ret != -ENOENT)
		return ret;
	snprintf(path, sizeof(path), "%s/" RP_LIBEXEC_FROM_COMMAND "/%s", own, program);
	return act(path, data);
}

static int execute(const char *path, void *arguments)
{
	execv(path, arguments);
	return -errno;
}

static int check_access(const char *path, void *data)
{
	(void)data;
	return access(path, X_OK) ? -errno : 0;
}

bool rp_own_program_exists(const char *program)
{
	return rp_own_program_try(program, check_access, NULL) == 0;
}

/*
 * Read the arguments of this process from the kernel, and replace the command's name, at index 1,
 * by the program's name. The program receives the array from index 1 on, and parses the options
 * again: what main() passes to a command is the parsed options, not the original arguments.
 * Return: an array that ends with NULL; NULL, with errno set, on failure.
 */
static char **read_arguments(const char *program)
{
	FILE *file = fopen("/proc/self/cmdline", "re");
	char **arguments = NULL, *word = NULL;
	size_t count = 0, space = 0;

	while (file && getdelim(&word, &space, '\0', file) > 0) {
		char **grown = reallocarray(arguments, count + 2, sizeof(*grown));

		if (!grown) {
			count = 0;
			break;
		}
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
	int ret = arguments ? rp_own_program_try(program, execute, arguments + 1) : -errno;

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

int rp_command_symbolize(const struct rp_tool_options *options)
{
	(void)options;
	return run("symbolize", "ringpipe-symbolize", "elfutils");
}

int rp_command_gen(const struct rp_tool_options *options)
{
	(void)options;
	return run("gen", "ringpipe-gen", "expat");
}
