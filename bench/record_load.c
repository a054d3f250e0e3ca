/* SPDX-License-Identifier: MIT */
/*
 * Loads that bench/record_cost.py records.
 *
 *	record_load switches FILE PROCESSOR RATE
 *		Two processes play ping-pong over pipes on one processor until this process ends.
 *		They compute between two switches, so that there are about RATE switches a second.
 *		The first 8 bytes of FILE count the switches. Prints a line when the players start.
 *	record_load idle
 *		Waits, and writes its process ID to the output when a session enables its provider.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"

#define TRIES 5
#define STEPS 1000000u
#define EXCHANGES 5000u

RP_PROVIDER(bench, "Bench-Record");
RP_EVENT(bench, begun, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(round));

static void fail(const char *what)
{
	fprintf(stderr, "record_load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void compute(uint64_t steps)
{
	uint64_t value = steps;

	for (uint64_t i = 0; i < steps; i++) {
		value *= 2862933555777941757u;
		__asm__ volatile("" : "+r"(value));
	}
}

/* Count each wake-up: the processor switched from the other player to this one. */
static void play(int from, int to, uint64_t steps, uint64_t exchanges, uint64_t *count)
{
	char byte = 0;

	for (uint64_t i = 0; i < exchanges; i++) {
		if (read(from, &byte, 1) != 1)
			_exit(1);
		__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
		compute(steps);
		if (write(to, &byte, 1) != 1)
			_exit(1);
	}
}

/* Start two players that end with this process. The byte that they exchange is in a pipe. */
static void start(uint64_t steps, uint64_t exchanges, uint64_t *count)
{
	const pid_t parent = getpid();
	int there[2], back[2];

	if (pipe(there) || pipe(back) || write(there[1], "", 1) != 1)
		fail("pipe");
	for (int i = 0; i < 2; i++) {
		pid_t player = fork();

		if (player < 0)
			fail("fork");
		if (player != 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			play(i ? back[0] : there[0], i ? there[1] : back[1], steps, exchanges,
			     count);
		_exit(0);
	}
	close(there[0]);
	close(there[1]);
	close(back[0]);
	close(back[1]);
}

/* Return: ns of a switch between players that do not compute, in the best of some tries. */
static double measure_switch(uint64_t *count)
{
	double best = 1e9;
	int status;

	for (int i = 0; i < TRIES; i++) {
		double ns = now_ns();

		start(0, EXCHANGES, count);
		while (wait(&status) > 0)
			;
		ns = (now_ns() - ns) / (2 * EXCHANGES);
		best = ns < best ? ns : best;
	}
	return best;
}

static double measure_step(void)
{
	double best = 1e9;

	for (int i = 0; i < TRIES; i++) {
		double ns = now_ns();

		compute(STEPS);
		ns = (now_ns() - ns) / STEPS;
		best = ns < best ? ns : best;
	}
	return best;
}

static uint64_t *open_count(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *count;

	if (fd < 0 || ftruncate(fd, sizeof(uint64_t)))
		fail(path);
	count = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (count == MAP_FAILED)
		fail("mmap");
	return count;
}

static void run_switches(const char *path, int processor, double rate)
{
	uint64_t *count = open_count(path);
	double spare_ns;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("sched_setaffinity");
	spare_ns = 1e9 / rate - measure_switch(count);
	start(spare_ns > 0 ? (uint64_t)(spare_ns / measure_step()) : 0, UINT64_MAX, count);
	puts("started");
	fflush(stdout);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	fail("a player ended early");
}

static void on_session(struct rp_provider *provider, const struct rp_provider_state *state,
		       void *user)
{
	const int32_t pid = getpid();

	(void)provider;
	(void)user;
	if (state->source_enabled && write(STDOUT_FILENO, &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "switches") == 0) {
		run_switches(argv[2], atoi(argv[3]), atof(argv[4]));
	} else if (argc == 2 && strcmp(argv[1], "idle") == 0) {
		rp_provider_set_callback(bench_provider(), on_session, NULL);
		bench_begun(0);
		for (;;)
			pause();
	}
	return 2;
}
