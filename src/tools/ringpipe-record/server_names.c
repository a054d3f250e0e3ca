/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/server_names.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cli/own_programs.h"
#include "tools/cli/tool.h"
#include "tools/ringpipe-record/spawn_plain.h"

#define PROGRAM "ringpipe-symbolize"

struct program_start {
	char *const *arguments;
	pid_t child;
};

static int start(const char *path, void *data)
{
	struct program_start *start = data;

	return rp_spawn_plain(path, start->arguments, &start->child);
}

/* Pass signals on until the program ends. Return: its status, as waitpid(2) has it. */
static int wait_for(pid_t child, int signal_fd)
{
	struct pollfd wait = { .fd = signal_fd, .events = POLLIN };
	struct signalfd_siginfo info;
	int status;

	while (waitpid(child, &status, WNOHANG) == 0) {
		(void)poll(&wait, 1, -1);
		while (read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
			if (info.ssi_signo != SIGCHLD)
				kill(child, SIGINT);
		}
	}
	return status;
}

void rp_server_names_add(const char *path, bool has_inlines, int signal_fd)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	char real[PATH_MAX], named[PATH_MAX + 32];
	const char *const arguments[] = {
		PROGRAM, "--quiet", "--force", "-o", named, real,
		has_inlines ? "--inlines" : NULL, NULL,
	};
	const bool asks = urls && *urls;
	struct program_start with = { .arguments = (char *const *)arguments };
	int ret, status;

	if ((!asks && !has_inlines) || !realpath(path, real))
		return;
	if ((size_t)snprintf(named, sizeof(named), "%s.named-%d", real,
			     (int)getpid()) >= sizeof(named))
		return;
	rp_tool_error("record: %s for names of functions; Ctrl-C ends this, and the trace is "
		      "complete without them", asks ? "asks the servers in DEBUGINFOD_URLS" :
		      "reads the DWARF of the files");
	ret = rp_own_program_try(PROGRAM, start, &with);
	if (ret < 0) {
		rp_tool_error("record: cannot run %s: %s", PROGRAM, strerror(-ret));
		return;
	}
	status = wait_for(with.child, signal_fd);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != RP_EXIT_OK || rename(named, real) < 0) {
		rp_tool_error("record: the trace has no names from %s", asks ? "servers" :
			      "DWARF");
		unlink(named);
	}
}
