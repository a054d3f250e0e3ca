/* SPDX-License-Identifier: MIT */
/*
 * How an enabled event's cost grows with what is in it: bytes, fields, strings. Beside the bytes, a
 * memcpy of as many, which is what no event can do without.
 */
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define ROUNDS 15u
#define SESSION_BYTES (32u << 20)
#define ROUND_BYTES (256u << 10)
#define ROUND_EVENTS 2000u
#define SIZE_MAX_BYTES 65500u

#define TWO(p) RP_U64(p##0), RP_U64(p##1)
#define EIGHT(p) TWO(p##0), TWO(p##1), TWO(p##2), TWO(p##3)
#define STRINGS(p) RP_STRING(p##0), RP_STRING(p##1)
#define ZEROS(n) n, n, n, n, n, n, n, n

RP_PROVIDER(bench, "Bench-Sizes");
RP_EVENT(bench, empty, 1, RP_LEVEL_INFORMATIONAL, 0);
RP_EVENT(bench, blob, 2, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(b));
RP_EVENT(bench, fields1, 3, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a));
RP_EVENT(bench, fields2, 4, RP_LEVEL_INFORMATIONAL, 0, TWO(a));
RP_EVENT(bench, fields4, 5, RP_LEVEL_INFORMATIONAL, 0, TWO(a), TWO(b));
RP_EVENT(bench, fields8, 6, RP_LEVEL_INFORMATIONAL, 0, EIGHT(a));
RP_EVENT(bench, fields16, 7, RP_LEVEL_INFORMATIONAL, 0, EIGHT(a), EIGHT(b));
RP_EVENT(bench, fields32, 8, RP_LEVEL_INFORMATIONAL, 0, EIGHT(a), EIGHT(b), EIGHT(c), EIGHT(d));
RP_EVENT(bench, strings1, 9, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(a));
RP_EVENT(bench, strings2, 10, RP_LEVEL_INFORMATIONAL, 0, STRINGS(a));
RP_EVENT(bench, strings4, 11, RP_LEVEL_INFORMATIONAL, 0, STRINGS(a), STRINGS(b));
RP_EVENT(bench, strings8, 12, RP_LEVEL_INFORMATIONAL, 0, STRINGS(a), STRINGS(b), STRINGS(c),
	 STRINGS(d));

static struct rp_session *session;
static uint64_t written;
static char from[SIZE_MAX_BYTES], to[8u << 20];
static const char *volatile string = "a customer's nam";

/* Each writes one event; `n` is its size, where it has one. */
static void write_empty(size_t n)
{
	(void)n;
	bench_empty();
}

static void write_blob(size_t n)
{
	bench_blob(from, n);
}

static void copy(size_t n)
{
	static size_t at;

	at = at + n > sizeof(to) ? 0 : at;
	memcpy(to + at, from, n);
	__asm__ volatile("" : : "r"(to) : "memory");
	at += n;
}

static void write_fields1(size_t n)
{
	bench_fields1(n);
}

static void write_fields2(size_t n)
{
	bench_fields2(n, n);
}

static void write_fields4(size_t n)
{
	bench_fields4(n, n, n, n);
}

static void write_fields8(size_t n)
{
	bench_fields8(ZEROS(n));
}

static void write_fields16(size_t n)
{
	bench_fields16(ZEROS(n), ZEROS(n));
}

static void write_fields32(size_t n)
{
	bench_fields32(ZEROS(n), ZEROS(n), ZEROS(n), ZEROS(n));
}

static void write_strings1(size_t n)
{
	(void)n;
	bench_strings1(string);
}

static void write_strings2(size_t n)
{
	(void)n;
	bench_strings2(string, string);
}

static void write_strings4(size_t n)
{
	(void)n;
	bench_strings4(string, string, string, string);
}

static void write_strings8(size_t n)
{
	(void)n;
	bench_strings8(string, string, string, string, string, string, string, string);
}

/* As long a session has been there, its rings have pages: of both kinds of rings. */
static void warm(void)
{
	for (size_t bytes = 0; bytes < 2 * SESSION_BYTES; bytes += 8192) {
		for (unsigned int i = 0; i < 8; i++)
			write_blob(1024);
		write_blob(8192);
		written += 9;
	}
	bench_settle(session, written);
}

/* The best round of `count` calls, in ns for each. */
static double best_of(void (*call)(size_t n), size_t n, unsigned int count, int writes)
{
	double best = 1e18;

	for (unsigned int round = 0; round < bench_rounds(ROUNDS); round++) {
		double begun = now_ns(), took;

		for (unsigned int i = 0; i < count; i++)
			call(n);
		took = (now_ns() - begun) / count;
		best = took < best ? took : best;
		if (writes)
			bench_settle(session, written += count);
	}
	return best;
}

static void sizes(void)
{
	static const size_t list[] = { 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4000, 8192, 16384,
				       32768, SIZE_MAX_BYTES };

	figure("event without a payload", best_of(write_empty, 0, ROUND_EVENTS, 1), "ns");
	for (unsigned int i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		unsigned int count = (unsigned int)(ROUND_BYTES / list[i]);

		count = count < ROUND_EVENTS ? count : ROUND_EVENTS;
		figure_point("event", (double)list[i], best_of(write_blob, list[i], count, 1),
			     "ns");
		figure_point("memcpy", (double)list[i], best_of(copy, list[i], count, 0), "ns");
	}
}

int main(void)
{
	static const struct {
		const char *curve;
		unsigned int x;
		void (*call)(size_t n);
	} rows[] = {
		{ "integers", 1, write_fields1 }, { "integers", 2, write_fields2 },
		{ "integers", 4, write_fields4 }, { "integers", 8, write_fields8 },
		{ "integers", 16, write_fields16 }, { "integers", 32, write_fields32 },
		{ "strings of 16 bytes", 1, write_strings1 },
		{ "strings of 16 bytes", 2, write_strings2 },
		{ "strings of 16 bytes", 4, write_strings4 },
		{ "strings of 16 bytes", 8, write_strings8 },
	};
	session = bench_start("Bench-Sizes", "/dev/null", SESSION_BYTES, 0);
	/* Its threads may go where they like. */
	bench_stay();
	warm();
	sizes();
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		figure_point(rows[i].curve, rows[i].x,
			     best_of(rows[i].call, 1, ROUND_EVENTS / 2, 1), "ns");
	rp_session_stop(session, NULL);
	return 0;
}
