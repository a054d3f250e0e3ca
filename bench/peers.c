/* SPDX-License-Identifier: MIT */
/*
 * Measures the same event of four numbers, 32 bytes, with every tracer and logger on this machine:
 * one thread, interleaved round by round. peers.py starts the other processes (LTTng's daemon,
 * bpftrace).
 *
 *	peers FOLDER		writes files of text there; BENCH_USDT: waits for a tracer
 */
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#if defined(HAVE_LTTNG)
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_hand.h"
#endif

#if defined(HAVE_SDT)
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
__extension__ unsigned short bench_four_semaphore __attribute__((section(".probes")));
#endif

#if defined(HAVE_SPDLOG)
#include "peers.h"
#endif

#define ROUNDS 300u
#define EVENTS 5000u
#define SLOW_EVENTS 500u	/* for peers that enter the kernel for each event */
#define TRACER_SECONDS 30
#define TEXT_BYTES (1u << 20)

RP_PROVIDER(bench, "Bench-Peers");
RP_EVENT(bench, four, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static struct rp_session *session;
static uint64_t sum, written;
static FILE *text;

static void run_rdtsc(unsigned int count)
{
	sum += read_rdtsc(count);
}

static void run_clock_gettime(unsigned int count)
{
	sum += read_clock_gettime(count);
}

static void run_ringpipe(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bench_four(i, i, i, i);
	written += count;
}

static void settle_ringpipe(void)
{
	bench_settle(session, written);
}

static void run_fprintf(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		fprintf(text, "order %u %u %u %u\n", i, i, i, i);
	/* The writer also flushes, because no other thread does. */
	fflush(text);
}

static void settle_fprintf(void)
{
	if (ferror(text) || ftruncate(fileno(text), 0) != 0)
		exit(1);
	rewind(text);
}

#if defined(HAVE_LTTNG)
static void run_lttng(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		lttng_ust_tracepoint(bench_hand, four, i, i, i, i);
}

static int lttng_listens(void)
{
	return lttng_ust_tracepoint_enabled(bench_hand, four);
}
#endif

#if defined(HAVE_SDT)
static void run_usdt(unsigned int count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (__atomic_load_n(&bench_four_semaphore, __ATOMIC_RELAXED))
			STAP_PROBE4(bench, four, i, i, i, i);
	}
}

static int tracer_listens(void)
{
	double until = now_ns() + TRACER_SECONDS * 1e9;

	while (getenv("BENCH_USDT") && now_ns() < until) {
		if (__atomic_load_n(&bench_four_semaphore, __ATOMIC_RELAXED))
			return 1;
		usleep(10000);
	}
	return 0;
}
#endif

#if defined(HAVE_SPDLOG)
static void run_spdlog(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		spdlog_write(i, i, i, i);
}
#endif

static const struct row {
	const char *name;
	unsigned int count;
	void (*run)(unsigned int count);
	void (*settle)(void);
	int (*can_run)(void);
} rows[] = {
	{ "rdtsc", EVENTS, run_rdtsc, NULL, NULL },
	{ "clock_gettime", EVENTS, run_clock_gettime, NULL, NULL },
	{ "ringpipe", EVENTS, run_ringpipe, settle_ringpipe, NULL },
#if defined(HAVE_LTTNG)
	{ "LTTng-UST tracepoint", EVENTS, run_lttng, NULL, lttng_listens },
#endif
	{ "fprintf to a file", EVENTS, run_fprintf, settle_fprintf, NULL },
#if defined(HAVE_SPDLOG)
	{ "spdlog, asynchronous", EVENTS, run_spdlog, spdlog_settle, NULL },
#endif
#if defined(HAVE_SDT)
	{ "USDT with bpftrace", SLOW_EVENTS, run_usdt, NULL, tracer_listens },
#endif
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void open_peers(const char *folder)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/fprintf.txt", folder);
	text = fopen(path, "w");
	/* More than a round, so that the file is written in one call. */
	if (!text || setvbuf(text, NULL, _IOFBF, TEXT_BYTES) != 0) {
		perror(path);
		exit(1);
	}
#if defined(HAVE_SPDLOG)
	snprintf(path, sizeof(path), "%s/spdlog.txt", folder);
	spdlog_open(path);
#endif
}

int main(int argc, char **argv)
{
	static double ns[ROWS][ROUNDS];
	int runs[ROWS];

	if (argc != 2) {
		fputs("usage: peers FOLDER\n", stderr);
		return 2;
	}
	open_peers(argv[1]);
	for (unsigned int i = 0; i < ROWS; i++)
		runs[i] = !rows[i].can_run || rows[i].can_run();
	/* The smallest ring that holds a round: its pages exist soon, as in a long session. */
	session = bench_start("Bench-Peers", "/dev/null", 32u << 20, 0);
	for (unsigned int round = 0; round < bench_rounds(ROUNDS); round++) {
		for (unsigned int i = 0; i < ROWS; i++) {
			double begun = now_ns();

			if (!runs[i])
				continue;
			rows[i].run(rows[i].count);
			ns[i][round] = (now_ns() - begun) / rows[i].count;
			if (rows[i].settle)
				rows[i].settle();
		}
	}
	rp_session_stop(session, NULL);
#if defined(HAVE_SPDLOG)
	spdlog_close();
#endif
	for (unsigned int i = 0; i < ROWS; i++) {
		if (runs[i])
			figure_rounds(rows[i].name, ns[i], bench_rounds(ROUNDS));
	}
	return sum == 42;
}
