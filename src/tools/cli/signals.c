/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli/signals.h"

static void fill_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGCHLD);
}

int rp_signals_open(void)
{
	sigset_t set;
	int fd;

	fill_set(&set);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

bool rp_signals_is_request(const struct signalfd_siginfo *info, struct rp_stop_signal *last)
{
	if (info->ssi_signo == SIGCHLD)
		return false;
	if (info->ssi_pid && info->ssi_pid == last->sender && info->ssi_signo == last->number) {
		*last = (struct rp_stop_signal){ 0 };
		return false;
	}
	last->number = info->ssi_signo;
	last->sender = info->ssi_code == SI_KERNEL ? 0 : info->ssi_pid;
	return true;
}

unsigned int rp_signals_count(int fd, struct rp_stop_signal *last)
{
	struct signalfd_siginfo info;
	unsigned int count = 0;

	while (read(fd, &info, sizeof(info)) == sizeof(info))
		count += rp_signals_is_request(&info, last);
	return count;
}

void rp_signals_close(int fd)
{
	struct signalfd_siginfo info;
	sigset_t set;

	while (read(fd, &info, sizeof(info)) == sizeof(info))
		;
	close(fd);
	fill_set(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void rp_signals_end_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
}

int64_t rp_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
