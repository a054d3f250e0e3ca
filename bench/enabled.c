/* SPDX-License-Identifier: MIT */
/*
 * Measures enabled events, compared with their floors, a bare rdtsc and clock_gettime, in the same
 * run, interleaved round by round.
 *
 * A round is a burst, short enough that many bursts are not interrupted. Between bursts, the
 * benchmark waits until the drain thread has emptied the rings, so that only the writer is
 * measured. Long sequences of events, which miss the cache, are measured separately.
 */
#include <stdbool.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "floor.h"
#include "session.h"

#define ROUNDS 5000u
#define BURST 400u
#define PAUSE 50u	/* rounds, then the drain thread catches up and long sequences follow */
#define LONG 20000u

RP_PROVIDER(bench, "Bench-Enabled");
RP_EVENT(bench, bytes8, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a));
RP_EVENT(bench, bytes32, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(bench, text, 3, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_STRING(s));
RP_EVENT(bench, blob, 4, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(b));
RP_LOG_EVENTS(bench);
RP_JSON_EVENTS(bench);

/* For the overwriting session; its counterpart is bytes32. */
RP_PROVIDER(flight, "Bench-Flight");
RP_EVENT(flight, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

/* For the session with coarse times. */
RP_PROVIDER(coarse, "Bench-Coarse");
RP_EVENT(coarse, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static uint64_t sum;
static char space[4096];
static struct rp_activity activity;

static void run_rdtsc(unsigned int count)
{
	sum += read_rdtsc(count);
}

static void run_clock_gettime(unsigned int count)
{
	sum += read_clock_gettime(count);
}

static void run_bytes8(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bench_bytes8(i);
}

static void run_bytes32(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bench_bytes32(i, i, i, i);
}

static void run_overwriting(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		flight_bytes32(i, i, i, i);
}

static void run_coarse(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		coarse_bytes32(i, i, i, i);
}

static void run_text(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bench_text(i, "a customer's name");
}

static void run_blob512(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bench_blob(space, 512);
}

static void run_activity(unsigned int count)
{
	rp_activity_set(&activity);
	run_bytes32(count);
	rp_activity_set(&(struct rp_activity){ 0 });
}

/* Both write the same text of 43 bytes; one formats it. */
static void run_log(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		RP_LOG(bench, RP_LEVEL_INFORMATIONAL, "{\"order\":%u,\"customer\":\"%s\"}",
		       100000 + i, "customer 5555");
}

static void run_json(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		RP_JSON(bench, RP_LEVEL_INFORMATIONAL, "checkout",
			"{\"order\":100000,\"customer\":\"customer 5555\"}");
}

static bool has_floor;
static unsigned int processors;

static void run_floor(unsigned int count)
{
#ifdef BENCH_HAS_FLOOR
	floor_empty(processors);
	for (unsigned int i = 0; i < count; i++)
		sum += (uint64_t)floor_write(i, i, i, i);
#else
	(void)count;
#endif
}

static void find_floor(void)
{
#ifdef BENCH_HAS_FLOOR
	processors = (unsigned int)sysconf(_SC_NPROCESSORS_CONF);
	has_floor = floor_begin(processors);
#endif
}

static const struct row {
	const char *name;
	void (*run)(unsigned int count);
	bool writes;
	unsigned int count;		/* 0: a burst */
} rows[] = {
	{ "rdtsc", run_rdtsc, false, 0 },
	{ "clock_gettime", run_clock_gettime, false, 0 },
	{ "event 8 B", run_bytes8, true, 0 },
	{ "event 32 B", run_bytes32, true, 0 },
	{ "event 32 B, overwriting", run_overwriting, false, 0 },
	{ "event 32 B, coarse time", run_coarse, false, 0 },
	{ "floor: 32 B by a restartable section, time from memory", run_floor, false, 0 },
	{ "event with a string", run_text, true, 0 },
	{ "event 512 B", run_blob512, true, 0 },
	{ "line of text by RP_LOG, 43 B", run_log, true, 0 },
	{ "JSON text by RP_JSON, 43 B", run_json, true, 0 },
	{ "event 32 B with activity id", run_activity, true, 0 },
	{ "rdtsc, a long burst", run_rdtsc, false, LONG },
	{ "event 32 B, a long burst", run_bytes32, true, LONG },
	{ "event 32 B, coarse time, a long burst", run_coarse, false, LONG },
	{ "floor: the same section, a long burst", run_floor, false, LONG },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static double ns[ROWS][ROUNDS];
static unsigned int rounds_of[ROWS];

static void run_row(unsigned int row, uint64_t *written)
{
	unsigned int count = rows[row].count ? rows[row].count : BURST;
	double begun = now_ns();

	if (rows[row].run == run_floor && !has_floor)
		return;
	rows[row].run(count);
	ns[row][rounds_of[row]++] = (now_ns() - begun) / count;
	if (rows[row].writes)
		*written += count;
}

int main(void)
{
	struct rp_session *session = bench_start("Bench-Enabled", "/dev/null", 256u << 20, 0);
	struct rp_session *recorder = bench_start("Bench-Flight", NULL, 32u << 20,
						  RP_SESSION_OVERWRITE);
	struct rp_session *roughly = bench_start("Bench-Coarse", NULL, 32u << 20,
						 RP_SESSION_OVERWRITE | RP_SESSION_COARSE);
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	uint64_t written = 0;

	rp_activity_generate(&activity.id);
	find_floor();
	for (unsigned int round = 0; round < bench_rounds(ROUNDS); round++) {
		for (unsigned int i = 0; i < ROWS; i++) {
			if (!rows[i].count || round % PAUSE == 0)
				run_row(i, &written);
		}
		if (round % PAUSE == 0)
			bench_settle(session, written);
	}
	rp_session_stop(roughly, NULL);
	rp_session_stop(recorder, NULL);
	rp_session_stop(session, &stats);
	for (unsigned int i = 0; i < ROWS; i++) {
		if (rounds_of[i])
			figure_rounds(rows[i].name, ns[i], rounds_of[i]);
	}
	figure("lost", (double)stats.lost, "events");
	return sum == 42;
}
