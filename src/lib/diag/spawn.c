/* SPDX-License-Identifier: MIT */
/*
 * A process between, made by clone(2) without an exit signal, starts the program and ends: the
 * kernel sends nothing when it does, and only a wait with __WCLONE finds it. The program's parent
 * is gone by then. The process between shares our memory while this thread stands still, as in
 * vfork(2), so it costs nothing however large the host is.
 */
#include "diag/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (64u << 10)

struct errand {
	const char *path;
	char *const *argv;
	const posix_spawn_file_actions_t *actions;
	const posix_spawnattr_t *attributes;
	pid_t pid;
	int error;
};

#ifdef __SANITIZE_THREAD__
/* Its own takes our thread for that of a forked child, and does not watch it any more. */
extern __typeof__(clone) plain_clone __asm__("__clone");
#define clone plain_clone
#endif

/*
 * Never returns, which ThreadSanitizer's record of our thread would not survive; nor does its
 * _exit(3) do, which flushes streams whose locks the host's threads may hold.
 */
__attribute__((no_sanitize("thread", "address")))
static int run_errand(void *data)
{
	static char *const environment[] = { NULL };
	struct errand *errand = data;

	errand->error = posix_spawn(&errand->pid, errand->path, errand->actions,
				    errand->attributes, errand->argv, environment);
	syscall(SYS_exit, 0);
	__builtin_unreachable();
}

static int send_between(struct errand *errand)
{
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	sigset_t all, before;
	pid_t between;
	int r = 0;

	if (stack == MAP_FAILED)
		return -errno;
	/* The thread may be the host's: its handlers must not run twice in one memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	between = clone(run_errand, (char *)stack + STACK_BYTES, CLONE_VM | CLONE_VFORK, errand);
	if (between < 0)
		r = -errno;
	while (between > 0 && waitpid(between, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	munmap(stack, STACK_BYTES);
	return r < 0 ? r : -errand->error;
}

static int set_descriptors(posix_spawn_file_actions_t *actions, const int fds[3])
{
	int error = 0;

	for (int i = 0; i < 3 && !error; i++) {
		if (fds[i] < 0)
			error = posix_spawn_file_actions_addopen(actions, i, "/dev/null", O_RDWR,
								 0);
		else
			error = posix_spawn_file_actions_adddup2(actions, fds[i], i);
	}
	return -error;
}

int rp_spawn_detached(const char *path, char *const argv[], const int fds[3], pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	struct errand errand = { .path = path, .argv = argv, .actions = &actions,
				 .attributes = &attributes };
	sigset_t signals;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	sigfillset(&signals);
	posix_spawnattr_setsigdefault(&attributes, &signals);
	sigemptyset(&signals);
	posix_spawnattr_setsigmask(&attributes, &signals);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
				 POSIX_SPAWN_SETSID);
	r = set_descriptors(&actions, fds);
	if (r == 0)
		r = send_between(&errand);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	if (r == 0)
		*ret_pid = errand.pid;
	return r;
}
