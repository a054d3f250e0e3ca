/* SPDX-License-Identifier: MIT */
/*
 * A program in the language of tiny.c: main calls sort_names, which calls the C function
 * qsort_like(), which calls compare. compare writes an event and computes. The first argument is
 * the file of the trace, the second is the number of seconds of CPU time. With a third argument,
 * signal handlers leave samples to safe points: "often", or "never", where no safe point follows.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <ringpipe/ringpipe.h>

#include "tiny.h"

RP_PROVIDER(tiny, "Tiny-Test");
RP_EVENT(tiny, compared, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(round));
RP_EVENT(tiny, generated, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U32(round));

static double cpu_limit;
static bool has_safe_points;

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

__attribute__((noinline)) static void burn_in_c(void)
{
	double end = cpu_seconds() + cpu_limit;

	while (cpu_seconds() < end) {
		if (has_safe_points)
			tiny_safe_point();
	}
}

/* The first stacks of a path are cut. Each pass of the drain thread caches rules for the next. */
#define ROUNDS 5

static void compare_body(void *data)
{
	(void)data;
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		tiny_compared(round);
		(void)rp_sessions_flush(-1);
	}
	burn_in_c();
	__asm__ volatile("");
}

__attribute__((noinline)) static void qsort_like(void)
{
	tiny_run(TINY_COMPARE, 30, compare_body, NULL);
	__asm__ volatile("");
}

static void sort_body(void *data)
{
	(void)data;
	qsort_like();
	__asm__ volatile("");
}

static void main_body(void *data)
{
	(void)data;
	tiny_run(TINY_SORT, 20, sort_body, NULL);
	__asm__ volatile("");
}

static void write_from_code(void)
{
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		tiny_generated(round);
		(void)rp_sessions_flush(-1);
	}
}

/*
 * Write an event below generated code, which the program then removes. It has a frame pointer:
 * push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret
 */
__attribute__((noinline)) static void run_generated_code(void)
{
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*run)(void (*function)(void));

	if (page == MAP_FAILED)
		return;
	memcpy(page, code, sizeof(code));
	memcpy(&run, &page, sizeof(run));
	(void)rp_code_add(page, sizeof(code), "generated_function");
	run(write_from_code);
	(void)rp_code_remove(page);
	munmap(page, 4096);
}

int main(int argc, char **argv)
{
	const struct rp_session_provider providers[] = {
		{ .size = sizeof(providers[0]), .name = "Tiny-Test", .level = RP_LEVEL_VERBOSE,
		  .keywords = UINT64_MAX },
		{ .size = sizeof(providers[0]), .name = "Microsoft-DotNETCore-SampleProfiler",
		  .level = RP_LEVEL_INFORMATIONAL, .keywords = UINT64_MAX },
	};
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;
	struct rp_session *session;
	struct rp_host host;

	cpu_limit = argc > 2 ? atof(argv[2]) : 0.2;
	tiny_defers = argc > 3;
	has_safe_points = argc > 3 && strcmp(argv[3], "often") == 0;
	tiny_init(&host);
	if (argc < 2 || rp_host_register(&host) != 0)
		return 1;
	options.name = "tiny";
	options.providers = providers;
	options.provider_count = 2;
	options.output_path = argv[1];
	options.flags = RP_SESSION_STACKS;
	if (rp_session_start(&options, &session) != 0)
		return 1;
	tiny_run(TINY_MAIN, 10, main_body, NULL);
#if defined(__x86_64__)
	run_generated_code();
#endif
	return rp_session_stop(session, NULL) != 0;
}
