/* SPDX-License-Identifier: MIT */
/*
 * Measures an event that only LTTng records, compared with the same tracepoint written by hand,
 * interleaved round by round. run.py has an overwriting LTTng session for both.
 */
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_hand.h"

#define ROUNDS 200u
#define EVENTS 10000u

RP_PROVIDER(bench, "Bench-LTTng");
RP_EVENT(bench, four, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(bench, text, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_STRING(s), RP_F64(f));

static void run_four(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bench_four(i, i, i, i);
}

static void hand_four(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		lttng_ust_tracepoint(bench_hand, four, i, i, i, i);
}

static void run_text(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bench_text(i, "a customer's name", i * 0.5);
}

static void hand_text(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		lttng_ust_tracepoint(bench_hand, text, i, "a customer's name", i * 0.5);
}

static const struct row {
	const char *name;
	void (*run)(unsigned int count);
} rows[] = {
	{ "event 32 B, only LTTng on", run_four },
	{ "event 32 B, LTTng tracepoint by hand", hand_four },
	{ "event with a string, only LTTng on", run_text },
	{ "event with a string, LTTng tracepoint by hand", hand_text },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

int main(void)
{
	static double ns[ROWS][ROUNDS];

	if (!bench_four_enabled() || !bench_text_enabled() ||
	    !lttng_ust_tracepoint_enabled(bench_hand, four)) {
		fputs("no session of LTTng has the events\n", stderr);
		return 1;
	}
	for (unsigned int round = 0; round < bench_rounds(ROUNDS); round++) {
		for (unsigned int i = 0; i < ROWS; i++) {
			double begun = now_ns();

			rows[i].run(EVENTS);
			ns[i][round] = (now_ns() - begun) / EVENTS;
		}
	}
	for (unsigned int i = 0; i < ROWS; i++)
		figure_rounds(rows[i].name, ns[i], bench_rounds(ROUNDS));
	return 0;
}
