/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of kernel events in a trace: CPU time of a thread that calls getppid(2),
 * compared with a session without them. Rounds alternate.
 *
 *	kernel RINGPIPE
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"

#define ROUNDS 5
#define CALLS 200000u

RP_PROVIDER(bench, "Bench-Kernel");
RP_EVENT(bench, begun, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(round));

static double thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void fail(const char *what, int status)
{
	fprintf(stderr, "kernel: %s\n", what);
	exit(status);
}

/* The buffer holds all records of a round: a lost record would be cheaper. */
static pid_t start(const char *tool, const char *groups, int err)
{
	char pid[16];
	pid_t child;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	child = fork();
	if (child == 0) {
		dup2(err, STDERR_FILENO);
		execl(tool, tool, "collect", "-q", "-f", "-p", pid, "-o", "/dev/null", "--buffer",
		      "512", groups ? "--kernel" : NULL, groups, NULL);
		_exit(127);
	}
	if (child < 0)
		fail("fork", 1);
	return child;
}

/* Return: ns for each call. */
static double measure(const char *tool, const char *groups)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	int err[2], status;
	char said[256];
	double cost;
	ssize_t size;
	pid_t child;

	if (pipe2(err, O_CLOEXEC))
		fail("pipe", 1);
	child = start(tool, groups, err[1]);
	close(err[1]);
	while (!bench_begun_enabled() && waitpid(child, &status, WNOHANG) == 0)
		nanosleep(&nap, NULL);
	bench_begun(1);
	cost = thread_ns();
	for (unsigned int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	cost = (thread_ns() - cost) / CALLS;
	kill(child, SIGINT);
	waitpid(child, &status, 0);
	size = read(err[0], said, sizeof(said) - 1);
	close(err[0]);
	said[size > 0 ? size : 0] = '\0';
	if (*said)
		fail(said, strstr(said, "--kernel") ? 77 : 1);
	while (bench_begun_enabled())
		nanosleep(&nap, NULL);
	return cost;
}

int main(int argc, char **argv)
{
	static const char *const ways[] = { NULL, "sched", "syscalls", "all" };
	double rounds[4][ROUNDS];

	if (argc != 2)
		fail("usage: kernel RINGPIPE", 2);
	for (int round = 0; round < (int)bench_rounds(ROUNDS); round++)
		for (int way = 0; way < 4; way++)
			rounds[way][round] = measure(argv[1], ways[way]);
	for (int way = 0; way < 4; way++)
		figure_rounds(ways[way] ? ways[way] : "session alone", rounds[way],
			      bench_rounds(ROUNDS));
	return 0;
}
