/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/client/proc.h"
#include "tools/ringpipe/top_cost.h"

/* New threads are searched for at every tenth call, because a process may have 100,000. */
#define SEARCH_READS 10u
#define SHORTEST_S 0.1
#define VISITED_MAX 100000u

struct thread_search {
	struct rp_top_cost *cost;
	unsigned int visited;
};

/* Read a file of a thread. Return: its length; 0: it cannot be read. */
static size_t read_file(pid_t pid, uint64_t thread, const char *name, char *text, size_t space)
{
	char path[96];
	size_t length;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%" PRIu64 "/%s", pid, thread, name);
	file = fopen(path, "re");
	if (!file)
		return 0;
	length = fread(text, 1, space - 1, file);
	fclose(file);
	text[length] = '\0';
	return length;
}

static bool is_library_thread(pid_t pid, uint64_t thread)
{
	char name[64];

	return read_file(pid, thread, "comm", name, sizeof(name)) &&
	       strncmp(name, "ringpipe-", strlen("ringpipe-")) == 0;
}

/* Return: the thread's processor time; 0: it cannot be read. */
static uint64_t read_cpu_ns(pid_t pid, uint64_t thread)
{
	char text[1024], *end;
	uint64_t user, system;

	if (read_file(pid, thread, "schedstat", text, sizeof(text)))
		return strtoull(text, NULL, 10);
	/* A kernel without schedstat: fields 14 and 15, in ticks. */
	if (!read_file(pid, thread, "stat", text, sizeof(text)))
		return 0;
	end = strrchr(text, ')');
	if (!end || sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64
			   " %" SCNu64, &user, &system) != 2)
		return 0;
	return (user + system) * (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
}

static int visit_thread(uint64_t id, pid_t outer, void *data)
{
	struct thread_search *search = data;
	struct rp_top_cost *cost = search->cost;

	(void)outer;
	for (size_t i = 0; i < cost->thread_count; i++) {
		if (cost->threads[i].id == id)
			return 0;
	}
	if (cost->thread_count < RP_TOP_THREADS_MAX && is_library_thread(cost->pid, id))
		cost->threads[cost->thread_count++] = (struct rp_top_thread){
			id, read_cpu_ns(cost->pid, id),
		};
	return ++search->visited >= VISITED_MAX;
}

/* Return: the time since the previous call. A thread that has ended adds nothing. */
static uint64_t advance_threads(struct rp_top_cost *cost)
{
	uint64_t sum = 0;
	size_t kept = 0;

	for (size_t i = 0; i < cost->thread_count; i++) {
		struct rp_top_thread thread = cost->threads[i];
		const uint64_t cpu_ns = read_cpu_ns(cost->pid, thread.id);

		/* The id may belong to another thread now. */
		if (!is_library_thread(cost->pid, thread.id))
			continue;
		if (cpu_ns > thread.cpu_ns) {
			sum += cpu_ns - thread.cpu_ns;
			thread.cpu_ns = cpu_ns;
		}
		cost->threads[kept++] = thread;
	}
	cost->thread_count = kept;
	return sum;
}

void rp_top_cost_read(struct rp_top_cost *cost, double interval_s)
{
	struct thread_search search = { .cost = cost };
	const uint64_t process_ns = advance_threads(cost);
	struct timespec own;
	uint64_t own_ns;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
	own_ns = (uint64_t)own.tv_sec * 1000000000u + (uint64_t)own.tv_nsec;
	cost->process_percent = -1;
	cost->command_percent = -1;
	/* In a shorter time, the ticks of clocks and the end of a session say little. */
	if (interval_s >= SHORTEST_S) {
		if (cost->thread_count > 0)
			cost->process_percent = (double)process_ns / interval_s / 1e7;
		cost->command_percent = (double)(own_ns - cost->own_ns) / interval_s / 1e7;
	}
	cost->own_ns = own_ns;
	if (cost->reads++ % SEARCH_READS == 0)
		(void)rp_proc_threads(cost->pid, visit_thread, &search);
}
