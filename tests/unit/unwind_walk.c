/* SPDX-License-Identifier: MIT */
/*
 * Stacks by .eh_frame, compared with libgcc's unwinder, which throws C++ exceptions by the same
 * tables: wherever the program is stopped, both must report the same calls.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../in_valgrind.h"
#include "base/atomic.h"
#include "base/thread.h"
#include "unwind/unwind.h"

#define FRAMES_MAX 100u

static void init(void)
{
	void *frames[4];

	/* valgrind's replacements of libc's functions, which no table describes. */
	if (runs_in_valgrind())
		cr_skip_test("valgrind runs code of its own");
	/* The first call loads libgcc. */
	cr_assert_gt(backtrace(frames, 4), 0);
	rp_unwind_refresh();
}

TestSuite(unwind_walk, .init = init);

struct comparison {
	uint64_t stops, frames, deepest;
	uint64_t mismatches;
	unsigned int ours, theirs;
	uint64_t our_frames[FRAMES_MAX], their_frames[FRAMES_MAX];
};

static struct comparison seen;

/* Begins at the interrupted instruction. */
static unsigned int witness(const ucontext_t *context, uint64_t *ret_frames)
{
	uint64_t at = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
	void *frames[FRAMES_MAX + 8];
	int count = backtrace(frames, FRAMES_MAX + 8), skipped = 0;

	while (skipped < count && (uint64_t)(uintptr_t)frames[skipped] != at)
		skipped++;
	for (int i = skipped; i < count && i - skipped < (int)FRAMES_MAX; i++)
		ret_frames[i - skipped] = (uint64_t)(uintptr_t)frames[i];
	return count - skipped < (int)FRAMES_MAX ? (unsigned int)(count - skipped) : FRAMES_MAX;
}

static void compare_stacks(int number, siginfo_t *info, void *context)
{
	uint64_t ours[FRAMES_MAX], theirs[FRAMES_MAX];
	struct rp_window window = { 0, 0 };
	struct rp_registers registers;
	unsigned int count, other;

	(void)number;
	(void)info;
	cr_assert(rp_registers_of_context(context, &registers));
	count = rp_unwind(&registers, &window, ours, FRAMES_MAX);
	other = witness(context, theirs);
	seen.stops++;
	seen.frames += count;
	if (count > seen.deepest)
		seen.deepest = count;
	if (count == other && memcmp(ours, theirs, count * sizeof(ours[0])) == 0)
		return;
	if (seen.mismatches++ > 0)
		return;
	seen.ours = count;
	seen.theirs = other;
	memcpy(seen.our_frames, ours, sizeof(ours));
	memcpy(seen.their_frames, theirs, sizeof(theirs));
}

static int compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Calls small parts of libc whose hand-written and optimised code keeps no frame pointer. */
static void work(unsigned int round)
{
	double numbers[256];
	char text[256];
	regex_t pattern;
	struct tm tm;
	time_t now = (time_t)round * 1000;

	for (unsigned int i = 0; i < 256; i++)
		numbers[i] = (double)((round + i) * 2654435761u);
	qsort(numbers, 256, sizeof(numbers[0]), compare_numbers);
	snprintf(text, sizeof(text), "%.17g %s %d", numbers[round % 256], "text", (int)round);
	(void)strtod(text, NULL);
	cr_assert_eq(regcomp(&pattern, "([a-z]+)[0-9]*(x|y)?", REG_EXTENDED), 0);
	(void)regexec(&pattern, text, 0, NULL, 0);
	regfree(&pattern);
	(void)localtime_r(&now, &tm);
	(void)strftime(text, sizeof(text), "%c", &tm);
	(void)dlsym(RTLD_DEFAULT, "there_is_no_such_symbol");
	free(realloc(malloc(round % 5000 + 1), round % 9000 + 1));
	(void)getppid();
}

static void print_mismatch(void)
{
	for (unsigned int i = 0; i < FRAMES_MAX && (i < seen.ours || i < seen.theirs); i++) {
		Dl_info ours = { 0 }, theirs = { 0 };

		(void)dladdr((void *)(uintptr_t)seen.our_frames[i], &ours);
		(void)dladdr((void *)(uintptr_t)seen.their_frames[i], &theirs);
		fprintf(stderr, "%2u %16llx %s+%llx | %16llx %s\n", i,
			i < seen.ours ? (unsigned long long)seen.our_frames[i] : 0,
			ours.dli_fname && i < seen.ours ? ours.dli_fname : "",
			(unsigned long long)(seen.our_frames[i] - (uintptr_t)ours.dli_fbase),
			i < seen.theirs ? (unsigned long long)seen.their_frames[i] : 0,
			theirs.dli_sname && i < seen.theirs ? theirs.dli_sname : "");
	}
}

/*
 * In its last instructions the caller's frame is already current, and its table locates that frame.
 */
Test(unwind_walk, each_instruction_of_longjmp_shows_the_calls_that_libgcc_shows)
{
	struct sigaction action = { .sa_sigaction = compare_stacks, .sa_flags = SA_SIGINFO };
	const unsigned long long step = 0x100;	/* the flag TF */
	jmp_buf place;

#ifdef __SANITIZE_THREAD__
	cr_skip_test("ThreadSanitizer hands signals on later than they came");
#endif
	cr_assert_eq(sigaction(SIGTRAP, &action, NULL), 0);
	if (_setjmp(place) == 0) {
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | step);
		longjmp(place, 1);
	}
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~step);
	if (rp_load_relaxed(&seen.stops) == 0)
		cr_skip_test("no processor that steps");
	print_mismatch();
	cr_expect_eq(seen.mismatches, 0, "%llu of %llu stacks differ",
		     (unsigned long long)seen.mismatches, (unsigned long long)seen.stops);
}

Test(unwind_walk, stops_anywhere_show_the_calls_that_libgcc_shows)
{
	struct sigaction action = { .sa_sigaction = compare_stacks,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };

#ifdef __SANITIZE_THREAD__
	cr_skip_test("ThreadSanitizer hands signals on later than they came");
#endif
	cr_assert_eq(sigaction(SIGALRM, &action, NULL), 0);
	cr_assert_eq(setitimer(ITIMER_REAL, &every, NULL), 0);
	for (unsigned int round = 0; rp_load_relaxed(&seen.stops) < 2000; round++)
		work(round);
	setitimer(ITIMER_REAL, &never, NULL);
	print_mismatch();
	cr_expect_geq(seen.frames, 4 * seen.stops);
	cr_expect_eq(seen.mismatches, 0, "%llu of %llu stacks differ",
		     (unsigned long long)seen.mismatches, (unsigned long long)seen.stops);
}
