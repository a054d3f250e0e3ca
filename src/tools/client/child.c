/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/client/child.h"
#include "ipc/command_ids.h"
#include "tools/client/exchange.h"
#include "tools/cli/signals.h"
#include "tools/cli/tool.h"

/* A deadline for hung runtimes: a working one answers immediately. */
#define RESUME_MS 10000

/*
 * The child gets an empty signal mask, since this process blocks the signals that it reads by
 * signalfd.
 */
static int spawn(char *const *arguments, bool prints_to_stderr, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int ret = posix_spawnattr_init(&attributes);

	if (ret)
		return -ret;
	ret = posix_spawn_file_actions_init(&actions);
	if (ret) {
		posix_spawnattr_destroy(&attributes);
		return -ret;
	}
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	if (prints_to_stderr)
		ret = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
	if (ret == 0)
		ret = posix_spawnp(ret_pid, arguments[0], &actions, &attributes, arguments,
				   environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -ret;
}

/* Reaps orphans of the command too, which would otherwise remain zombies. */
static void reap(struct rp_child *child)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != child->pid || child->ended)
			continue;
		child->ended = true;
		child->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	}
}

/*
 * Ctrl-C on a terminal sends SIGINT to the whole foreground group (si_code SI_KERNEL), so the child
 * already has it. Signals sent to this process alone are passed on. SIGCHLD is read after them, so
 * each looks for the end of the child, which a signal no longer reaches. Signals that are read with
 * this end may have been meant for the child. They count as one request, which keeps the rest of
 * the trace.
 */
unsigned int rp_child_signals(struct rp_child *child)
{
	const bool had_ended = child->ended;
	struct signalfd_siginfo info;
	unsigned int ours = 0;

	while (read(child->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		reap(child);
		if (child->ended)
			ours += rp_signals_is_request(&info, &child->last_signal);
		else if (info.ssi_signo != SIGCHLD && info.ssi_code != SI_KERNEL)
			kill(child->pid, (int)info.ssi_signo);
	}
	return had_ended || !ours ? ours : 1;
}

/* One round of waiting for the command: handles signals and connections to the port. */
static void attend(struct rp_child *child)
{
	struct pollfd waits[] = {
		{ .fd = child->signal_fd, .events = POLLIN },
		{ .fd = child->port.fd, .events = POLLIN },
	};

	poll(waits, 2, -1);
	rp_child_signals(child);
	rp_tool_port_accept(&child->port);
}

int rp_child_await(struct rp_child *child)
{
	while (!child->ended && child->port.pid == 0)
		attend(child);
	return child->port.pid ? 0 : -ECHILD;
}

void rp_child_wait(struct rp_child *child)
{
	while (!child->ended)
		attend(child);
}

void rp_child_resume(struct rp_child *child, const struct rp_target *target)
{
	struct rp_message_buffer request = { 0 };
	struct rp_exchange exchange;
	int ret;

	if (child->resumed)
		return;
	child->resumed = true;
	rp_message_begin(&request, RP_MESSAGE_PROCESS, RP_RESUME_RUNTIME);
	rp_message_end(&request);
	ret = rp_exchange_begin(&exchange, target, &request);
	if (ret == 0)
		ret = rp_exchange_run(&exchange, RESUME_MS);
	/* If the child has ended, its exit status is the report. */
	if (ret == -ETIMEDOUT || ret == -EREMOTEIO)
		rp_exchange_explain(&exchange, "resume", ret);
	rp_exchange_end(&exchange);
	rp_message_fini(&request);
}

int rp_child_start(struct rp_child *child, char *const *arguments, bool prints_to_stderr)
{
	int ret;

	*child = (struct rp_child){ .signal_fd = -1 };
	/*
	 * Orphans of the command become children of this process, so --tree still finds them as
	 * descendants.
	 */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	ret = rp_tool_port_open(&child->port);
	if (ret)
		return ret;
	/* `connect` and `suspend` are the defaults of such a port. */
	if (setenv("DOTNET_DiagnosticPorts", child->port.path, 1) || unsetenv("RINGPIPE_PORTS")) {
		rp_tool_error("out of memory");
		return -ENOMEM;
	}
	child->signal_fd = rp_signals_open();
	if (child->signal_fd < 0) {
		rp_tool_error("cannot receive signals: %s", strerror(-child->signal_fd));
		return child->signal_fd;
	}
	ret = spawn(arguments, prints_to_stderr, &child->pid);
	if (ret)
		rp_tool_error("cannot start %s: %s", arguments[0], strerror(-ret));
	return ret;
}

void rp_child_fini(struct rp_child *child)
{
	if (child->signal_fd >= 0)
		rp_signals_close(child->signal_fd);
	rp_tool_port_close(&child->port);
}
