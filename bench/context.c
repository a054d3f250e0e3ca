/* SPDX-License-Identifier: MIT */
/*
 * Measures the calls that attach the ids of a request to the thread and detach them, while the
 * process publishes its context for profilers, compared with a read of the processor's clock in the
 * same run, interleaved round by round.
 */
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <ringpipe/ringpipe.h>

#include "clock.h"

#define ROUNDS 5000u
#define BURST 400u

static struct rp_activity request;
static volatile uint64_t sink;

static void read_clock(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
#if defined(__x86_64__)
		sink = __rdtsc();
#else
		sink = (uint64_t)now_ns();
#endif
	}
}

static void attach_and_detach(unsigned int count)
{
	static const struct rp_activity none;

	for (unsigned int i = 0; i < count; i++) {
		rp_activity_set(&request);
		rp_activity_set(&none);
	}
}

static const struct row {
	const char *name;
	void (*run)(unsigned int count);
	unsigned int calls;		/* in one step */
} rows[] = {
	{ "rdtsc", read_clock, 1 },
	{ "attach or detach", attach_and_detach, 2 },
	{ "attach or detach, published", attach_and_detach, 2 },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void measure(unsigned int row, unsigned int round, double ns[ROWS][ROUNDS])
{
	const double begun = now_ns();

	rows[row].run(BURST);
	ns[row][round] = (now_ns() - begun) / BURST / rows[row].calls;
}

int main(void)
{
	static double ns[ROWS][ROUNDS];
	const unsigned int rounds = bench_rounds(ROUNDS);
	uint8_t flags;

	rp_traceparent_generate(&request, &flags);
	for (unsigned int round = 0; round < rounds; round++)
		measure(1, round, ns);
	if (rp_process_context_publish(NULL) != 0)
		return 1;
	for (unsigned int round = 0; round < rounds; round++) {
		measure(0, round, ns);
		measure(2, round, ns);
	}
	for (unsigned int i = 0; i < ROWS; i++)
		figure_rounds(rows[i].name, ns[i], rounds);
	return 0;
}
