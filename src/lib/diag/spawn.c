/* SPDX-License-Identifier: MIT */
/*
 * An intermediate process, created by clone(2) without an exit signal, starts the program and ends.
 * The kernel sends no signal at its end, and only a wait with __WCLONE finds it. So the program is
 * an orphan. Like a vfork(2) child, the intermediate process shares this process's memory while the
 * calling thread is stopped, so its cost does not depend on the size of the host.
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
/* TSan's clone() treats this thread as that of a forked child, and stops tracking it. */
extern __typeof__(clone) plain_clone __asm__("__clone");
#define clone plain_clone
#endif

/*
 * Never returns, because ThreadSanitizer's record of the calling thread would be corrupted. Does
 * not call _exit(3) either, because the sanitizer's version flushes streams that other threads may
 * have locked.
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
	/* A handler of the host must not run in the other process, which shares its memory. */
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
