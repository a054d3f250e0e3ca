/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/ringpipe/kernel_program.h"
#include "tools/cli/tool.h"

#define HELPER "ringpipe-kernel"
#define STATUS_FD 3

/* Records from the kernel may use this fraction of the session's memory. */
#define RING_SHARE 8

/* Looks in this program's build folder, then where an installation puts it. Return: 0 or -errno. */
static int find_helper(char path[2 * PATH_MAX])
{
	static const char *const places[] = {
		"/../ringpipe-kernel/" HELPER, "/" RP_LIBEXEC_FROM_COMMAND "/" HELPER,
	};
	char folder[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	if (n < 0)
		return -errno;
	folder[n] = '\0';
	*strrchr(folder, '/') = '\0';
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, 2 * PATH_MAX, "%s%s", folder, places[i]);
		if (access(path, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

/* Return: 0 or -errno. */
static int spawn(const char *path, char *const *arguments, const int fds[3], pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int ret = posix_spawn_file_actions_init(&actions);

	if (ret)
		return -ret;
	posix_spawn_file_actions_adddup2(&actions, fds[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fds[2], STATUS_FD);
	ret = posix_spawn(ret_pid, path, &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -ret;
}

static int start(struct rp_output *output, const char *path, char *const *arguments)
{
	int trace[2], status[2], ret;

	if (pipe2(trace, O_CLOEXEC))
		return -errno;
	if (pipe2(status, O_CLOEXEC)) {
		ret = -errno;
		close(trace[0]);
		close(trace[1]);
		return ret;
	}
	ret = spawn(path, arguments, (int[]){ trace[0], output->fd, status[1] },
		    &output->filter_pid);
	close(trace[0]);
	close(status[1]);
	if (ret) {
		close(trace[1]);
		close(status[0]);
		return ret;
	}
	output->filter_fd = trace[1];
	output->status_fd = status[0];
	return 0;
}

void rp_kernel_start(struct rp_output *output, pid_t pid, unsigned int groups, uint32_t buffer_mb)
{
	char path[2 * PATH_MAX], words[3][24], name[] = HELPER;
	char *arguments[] = { name, words[0], words[1], words[2], NULL };
	int ret = find_helper(path);

	snprintf(words[0], sizeof(words[0]), "%d", pid);
	snprintf(words[1], sizeof(words[1]), "%u", groups);
	snprintf(words[2], sizeof(words[2]), "%llu", ((unsigned long long)buffer_mb << 20) /
		 RING_SHARE);
	if (ret == -ENOENT)
		rp_tool_error("--kernel: %s is not installed; there are no kernel events", HELPER);
	else if (ret || (ret = start(output, path, arguments)))
		rp_tool_error("--kernel: cannot start %s: %s; there are no kernel events", HELPER,
			      strerror(-ret));
	/* If the program is not ready, it has already reported the cause. */
	else if (!rp_output_filter_says(output, 'r'))
		rp_output_filter_end(output);
}
