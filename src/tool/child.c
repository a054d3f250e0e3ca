/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/child.h"
#include "tool/recording.h"
#include "tool/tool.h"

/* The child gets a clean mask: ours has blocked what comes by signalfd. */
static int spawn(char *const *arguments, pid_t *ret_pid)
{
	posix_spawnattr_t attributes;
	sigset_t none;
	int ret = posix_spawnattr_init(&attributes);

	if (ret)
		return -ret;
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	ret = posix_spawnp(ret_pid, arguments[0], NULL, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	return -ret;
}

/*
 * Ctrl-C on a terminal goes to the whole foreground group (si_code SI_KERNEL): the child has it
 * already. What somebody sent to us alone is passed on.
 */
static void pass_on(int signal_fd, pid_t pid)
{
	struct signalfd_siginfo info;

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGCHLD && info.ssi_code != SI_KERNEL)
			kill(pid, (int)info.ssi_signo);
	}
}

static int wait_for(int signal_fd, pid_t pid)
{
	struct pollfd wait = { .fd = signal_fd, .events = POLLIN };
	int status;

	for (;;) {
		pid_t ended = waitpid(pid, &status, WNOHANG);

		if (ended == pid)
			break;
		if (ended < 0 && errno != EINTR)
			return 1;
		poll(&wait, 1, -1);
		pass_on(signal_fd, pid);
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int rp_child_run(const struct rp_child_plan *plan, pid_t *ret_pid, int *ret_status)
{
	int signal_fd, ret = 0;
	char megabytes[16];

	snprintf(megabytes, sizeof(megabytes), "%" PRIu32, plan->buffer_mb);
	if (setenv("RINGPIPE_CONFIG", plan->config, 1) ||
	    setenv("RINGPIPE_OUTPUT", plan->output, 1) ||
	    setenv("RINGPIPE_BUFFER_MB", megabytes, 1) ||
	    setenv("RINGPIPE_STACKS", plan->stacks ? "1" : "0", 1)) {
		rp_tool_error("out of memory");
		return -ENOMEM;
	}
	signal_fd = rp_signals_open();
	if (signal_fd < 0) {
		rp_tool_error("cannot receive signals: %s", strerror(-signal_fd));
		return signal_fd;
	}
	ret = spawn(plan->arguments, ret_pid);
	if (ret)
		rp_tool_error("cannot start %s: %s", plan->arguments[0], strerror(-ret));
	else
		*ret_status = wait_for(signal_fd, *ret_pid);
	rp_signals_close(signal_fd);
	return ret;
}
