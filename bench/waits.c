/* SPDX-License-Identifier: MIT */
/*
 * Measures what watching waits adds to a context switch: two processes play ping-pong over pipes on
 * one processor, undisturbed, under `ringpipe record`, which also takes 99 samples a second, and
 * under the switch records of perf_events alone. Rounds alternate.
 *
 *	waits RINGPIPE
 *	waits PROCESSOR: plays once there, and prints the cost of a switch
 */
#include <ctype.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define ROUNDS 9
#define EXCHANGES 20000u
#define PERF_PAGES 512u

enum way { UNDISTURBED, RECORD, PERF, WAYS };

static void fail(const char *what, int status)
{
	fprintf(stderr, "waits: %s: %s\n", what, strerror(errno));
	exit(status);
}

static void play(int from, int to, bool begins)
{
	char byte = 0;

	for (unsigned int i = 0; i < EXCHANGES; i++) {
		if (begins && write(to, &byte, 1) != 1)
			_exit(1);
		if (read(from, &byte, 1) != 1)
			_exit(1);
		if (!begins && write(to, &byte, 1) != 1)
			_exit(1);
	}
}

/* Return: ns for each switch. */
static double measure(void)
{
	int there[2], back[2], status[2];
	pid_t players[2];
	double begin;

	if (pipe(there) || pipe(back))
		fail("pipe", 1);
	begin = now_ns();
	for (int i = 0; i < 2; i++) {
		players[i] = fork();
		if (players[i] < 0)
			fail("fork", 1);
		if (players[i] == 0) {
			play(i ? there[0] : back[0], i ? back[1] : there[1], !i);
			_exit(0);
		}
	}
	for (int i = 0; i < 2; i++)
		if (waitpid(players[i], &status[i], 0) < 0 || status[i])
			fail("a player ended early", 1);
	begin = (now_ns() - begin) / (2 * EXCHANGES);
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
	return begin;
}

/* A ring that is not writable keeps the newest records, so it needs no reader. */
static double measure_perf(int processor)
{
	struct perf_event_attr attributes = {
		.size = sizeof(attributes), .type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY, .context_switch = 1, .sample_id_all = 1,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
		.use_clockid = 1, .clockid = CLOCK_MONOTONIC, .write_backward = 1,
	};
	const size_t bytes = (PERF_PAGES + 1) * (size_t)sysconf(_SC_PAGESIZE);
	int fd = (int)syscall(SYS_perf_event_open, &attributes, -1, processor, -1, 0);
	void *ring;
	double cost;

	if (fd < 0)
		fail("perf_event_open", errno == EACCES || errno == EPERM ? 77 : 1);
	ring = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		fail("mmap", 1);
	cost = measure();
	if (((struct perf_event_mmap_page *)ring)->data_head == 0) {
		errno = ENODATA;
		fail("perf_events recorded no switch", 1);
	}
	munmap(ring, bytes);
	close(fd);
	return cost;
}

/* The recorder starts the players, on the same processor as those of the other ways. */
static double measure_recorded(const char *tool, const char *program, int processor)
{
	char command[4096], line[256];
	double cost = 0;
	FILE *output;

	snprintf(command, sizeof(command), "'%s' record -q -f -o /dev/null -- '%s' %d 2>&1", tool,
		 program, processor);
	output = popen(command, "r");
	while (output && fgets(line, sizeof(line), output)) {
		errno = EOPNOTSUPP;
		if (strstr(line, "no waits are recorded"))
			fail(line, 77);
		cost = strtod(line, NULL);
	}
	if (!output || pclose(output) || cost <= 0)
		fail("ringpipe record", 1);
	return cost;
}

static void stay(int processor)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("sched_setaffinity", 1);
}

int main(int argc, char **argv)
{
	static const char *const names[WAYS] = {
		[UNDISTURBED] = "switch", [RECORD] = "switch, ringpipe record",
		[PERF] = "switch, records of perf_events",
	};
	double rounds[WAYS][ROUNDS];
	cpu_set_t all;
	int processor;

	sched_getaffinity(0, sizeof(all), &all);
	processor = sched_getcpu();
	if (argc != 2)
		return 2;
	if (isdigit((unsigned char)argv[1][0])) {
		stay((int)strtol(argv[1], NULL, 10));
		printf("%f\n", measure());
		return 0;
	}
	errno = EPERM;
	if (geteuid() != 0)
		fail("needs root", 77);
	for (unsigned int round = 0; round < bench_rounds(ROUNDS); round++) {
		sched_setaffinity(0, sizeof(all), &all);
		rounds[RECORD][round] = measure_recorded(argv[1], argv[0], processor);
		stay(processor);
		rounds[UNDISTURBED][round] = measure();
		rounds[PERF][round] = measure_perf(processor);
	}
	for (int way = 0; way < WAYS; way++)
		figure_rounds(names[way], rounds[way], bench_rounds(ROUNDS));
	return 0;
}
