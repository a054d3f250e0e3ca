/* SPDX-License-Identifier: MIT */
/*
 * Measures events with rings in files, compared with rings in memory: two sessions in one process,
 * interleaved round by round. Each round writes into empty rings.
 *
 * usage: bench-recover DIRECTORY
 */
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define ROUNDS 200u
#define EVENTS 20000u
#define BUFFER_BYTES (64u << 20)

RP_PROVIDER(memory, "Bench-Memory");
RP_EVENT(memory, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(memory, blob, 2, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(b));
RP_PROVIDER(file, "Bench-File");
RP_EVENT(file, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(file, blob, 2, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(b));

static char space[512];

static void run_memory(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		memory_bytes32(i, i, i, i);
}

static void run_memory512(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		memory_blob(space, sizeof(space));
}

static void run_file(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		file_bytes32(i, i, i, i);
}

static void run_file512(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		file_blob(space, sizeof(space));
}

static const struct row {
	const char *name;
	void (*run)(unsigned int count);
	unsigned int session;
	unsigned int events;
} rows[] = {
	{ "event 32 B, ring in memory", run_memory, 0, EVENTS },
	{ "event 32 B, ring in a file", run_file, 1, EVENTS },
	{ "event 512 B, ring in memory", run_memory512, 0, EVENTS / 4 },
	{ "event 512 B, ring in a file", run_file512, 1, EVENTS / 4 },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

int main(int argc, char **argv)
{
	static double ns[ROWS][ROUNDS];
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *sessions[2];
	uint64_t written[2] = { 0 }, lost = 0;
	char path[2][256];

	if (argc != 2)
		return 2;
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%u.nettrace", argv[1], i);
		sessions[i] = bench_start_in(i ? "Bench-File" : "Bench-Memory", path[i],
					     BUFFER_BYTES, 0, i ? argv[1] : NULL);
	}
	for (unsigned int round = 0; round < bench_rounds(ROUNDS); round++) {
		for (unsigned int i = 0; i < ROWS; i++) {
			const struct row *row = &rows[i];
			double begun = now_ns();

			row->run(row->events);
			ns[i][round] = (now_ns() - begun) / row->events;
			written[row->session] += row->events;
			bench_settle(sessions[row->session], written[row->session]);
		}
	}
	for (unsigned int i = 0; i < 2; i++) {
		rp_session_stop(sessions[i], &stats);
		lost += stats.lost;
	}
	for (unsigned int i = 0; i < ROWS; i++)
		figure_rounds(rows[i].name, ns[i], bench_rounds(ROUNDS));
	figure("lost", (double)lost, "events");
	return 0;
}
