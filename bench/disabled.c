/* SPDX-License-Identifier: MIT */
/*
 * Calls a function with a disabled event, or the same function without it, a given number of times.
 * The difference of two runs is the number of the event's instructions under callgrind, or its time
 * without callgrind.
 *
 *	disabled with|without COUNT	for callgrind
 *	disabled			for the clock: interleaved rounds
 */
#include <string.h>

#include "clock.h"
#include "site.h"

#define ROUNDS 200u
#define CALLS 100000u

/* The volatile pointer keeps the compiler from inlining or merging the calls. */
static uint64_t (*volatile call)(uint64_t value);
static uint64_t sum;

uint64_t work(uint64_t value)
{
	return value + 1;
}

static double round_of(uint64_t (*function)(uint64_t value), uint64_t count)
{
	double begun = now_ns();

	call = function;
	for (uint64_t i = 0; i < count; i++)
		sum += call(i);
	return (now_ns() - begun) / (double)count;
}

int main(int argc, char **argv)
{
	double with[ROUNDS], without[ROUNDS];

	if (argc == 3) {
		round_of(strcmp(argv[1], "with") == 0 ? with_event : without_event,
			 strtoull(argv[2], NULL, 10));
		return sum == 42;
	}
	for (unsigned int i = 0; i < bench_rounds(ROUNDS); i++) {
		without[i] = round_of(without_event, CALLS);
		with[i] = round_of(with_event, CALLS);
	}
	figure_rounds("a call without an event", without, bench_rounds(ROUNDS));
	figure_rounds("a call with a disabled event", with, bench_rounds(ROUNDS));
	return sum == 42;
}
