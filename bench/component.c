/* SPDX-License-Identifier: MIT */
/*
 * usage: component MODULE. Measures events that a component writes through its host, compared with
 * the same event written by the host itself, in the same run, interleaved round by round.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "component_bench.h"
#include "session.h"

#define ROUNDS 5000u
#define BURST 400u
#define PAUSE 50u	/* rounds, then the drain thread catches up */

RP_PROVIDER(bench, "Bench-Component");
RP_PROVIDER(off, "Bench-Component-Off");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(off, bytes32, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static const struct bench_functions *component;

static void bytes32(void *data, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	(void)data;
	bench_bytes32(a, b, c, d);
}

static const struct bench_events events = { sizeof(events), 0, bytes32 };

static void run_direct(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bench_bytes32(i, i, i, i);
}

static void run_direct_off(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		off_bytes32(i, i, i, i);
}

static void run_known(unsigned int count)
{
	component->known(count);
}

static void run_off(unsigned int count)
{
	component->off(count);
}

static void run_dynamic(unsigned int count)
{
	component->dynamic(count);
}

static const struct row {
	const char *name;
	void (*run)(unsigned int count);
	bool writes;
} rows[] = {
	{ "event 32 B", run_direct, true },
	{ "event 32 B through a component's table", run_known, true },
	{ "dynamic event of a component, 4 fields", run_dynamic, true },
	{ "disabled event", run_direct_off, false },
	{ "disabled event of a component", run_off, false },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void attach(const char *path)
{
	struct rp_component_options options = RP_COMPONENT_OPTIONS_INIT;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct rp_component_link *link;
	rp_component_entry entry;

	if (library) {
		component = dlsym(library, "bench_functions");
		entry = (rp_component_entry)dlsym(library, RP_COMPONENT_ENTRY);
		options.provider = bench_provider();
		options.private_provider = off_provider();
		options.events = &events;
		if (component && rp_component_attach(entry, &options, &link) == 0)
			return;
	}
	fprintf(stderr, "cannot attach %s\n", path);
	exit(1);
}

int main(int argc, char **argv)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	static double ns[ROWS][ROUNDS];
	struct rp_session *session;
	uint64_t written = 0;

	if (argc != 2)
		return 2;
	attach(argv[1]);
	session = bench_start("Bench-Component", "/dev/null", 256u << 20, 0);
	for (unsigned int round = 0; round < bench_rounds(ROUNDS); round++) {
		for (unsigned int i = 0; i < ROWS; i++) {
			double begun = now_ns();

			rows[i].run(BURST);
			ns[i][round] = (now_ns() - begun) / BURST;
			written += rows[i].writes ? BURST : 0;
		}
		if (round % PAUSE == 0)
			bench_settle(session, written);
	}
	rp_session_stop(session, &stats);
	for (unsigned int i = 0; i < ROWS; i++)
		figure_rounds(rows[i].name, ns[i], bench_rounds(ROUNDS));
	figure("lost", (double)stats.lost, "events");
	return 0;
}
