/* SPDX-License-Identifier: MIT */
/*
 * Measures how an enabled event's cost grows with its content: bytes, with and without an activity
 * id, fields, strings. For comparison, a memcpy of the same number of bytes, which no event can
 * avoid. All points alternate, so that other load on the machine affects each of them equally.
 */
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define ROUNDS 15u
#define SESSION_BYTES (32u << 20)
#define ROUND_BYTES (256u << 10)
#define ROUND_EVENTS 2000u
#define POINTS_AT_ONCE 4u	/* the ring holds what they write */
#define SIZE_MAX_BYTES 65500u
#define LONGEST_STRING 8192u

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
static char text[LONGEST_STRING + 1];

/* Each function writes one event; `n` is its size, if it has one. */
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

static void write_string(size_t n)
{
	bench_strings1(text + LONGEST_STRING - n);
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

/* Touches all pages of both kinds of rings, as in a session that has run for a while. */
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

/* A point of a curve: `count` calls per round; the result is the best round, in ns per call. */
struct point {
	const char *curve;
	size_t x;
	void (*call)(size_t n);
	int writes, active;
	unsigned int count;
	double best;
};

#define POINTS_MAX 96u
static struct point points[POINTS_MAX];
static unsigned int point_count;

static void plan(const char *curve, size_t x, size_t bytes, void (*call)(size_t n))
{
	struct point *point = &points[point_count++];

	point->curve = curve;
	point->x = x;
	point->call = call;
	point->writes = call != copy;
	point->count = bytes * ROUND_EVENTS < ROUND_BYTES ? ROUND_EVENTS :
		       (unsigned int)(ROUND_BYTES / bytes);
	point->best = 1e18;
}

static void plan_sizes(void)
{
	static const size_t list[] = { 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4000, 8192, 16384,
				       32768, SIZE_MAX_BYTES };

	plan("event without a payload", 0, 0, write_empty);
	for (unsigned int i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		plan("event", list[i], list[i], write_blob);
		plan("event with an activity id", list[i], list[i], write_blob);
		points[point_count - 1].active = 1;
		plan("memcpy", list[i], list[i], copy);
	}
	for (size_t n = 8; n <= LONGEST_STRING; n *= 4)
		plan("string", n, n, write_string);
}

static void plan_fields(void)
{
	static const struct {
		unsigned int count;
		void (*call)(size_t n);
	} integers[] = {
		{ 1, write_fields1 }, { 2, write_fields2 }, { 4, write_fields4 },
		{ 8, write_fields8 }, { 16, write_fields16 }, { 32, write_fields32 },
	}, strings[] = {
		{ 1, write_strings1 }, { 2, write_strings2 }, { 4, write_strings4 },
		{ 8, write_strings8 },
	};

	for (unsigned int i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
		plan("integers", integers[i].count, 8 * integers[i].count, integers[i].call);
	for (unsigned int i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		plan("strings of 16 bytes", strings[i].count, 17 * strings[i].count,
		     strings[i].call);
}

static void take(struct point *point, const struct rp_activity *activity)
{
	double begun, took;

	if (point->active)
		rp_activity_set(activity);
	begun = now_ns();
	for (unsigned int i = 0; i < point->count; i++)
		point->call(point->x);
	took = (now_ns() - begun) / point->count;
	rp_activity_set(&(struct rp_activity){ 0 });
	point->best = took < point->best ? took : point->best;
	written += point->writes ? point->count : 0;
}

int main(void)
{
	struct rp_activity activity = { 0 };

	rp_activity_generate(&activity.id);
	memset(text, 'x', LONGEST_STRING);
	session = bench_start("Bench-Sizes", "/dev/null", SESSION_BYTES, 0);
	/* Session threads, already started, may still use all processors. */
	bench_stay();
	warm();
	plan_sizes();
	plan_fields();
	for (unsigned int round = 0; round < bench_rounds(ROUNDS); round++) {
		for (unsigned int i = 0; i < point_count; i++) {
			take(&points[i], &activity);
			if (i % POINTS_AT_ONCE == 0)
				bench_settle(session, written);
		}
	}
	for (unsigned int i = 0; i < point_count; i++) {
		if (points[i].x)
			figure_point(points[i].curve, (double)points[i].x, points[i].best, "ns");
		else
			figure(points[i].curve, points[i].best, "ns");
	}
	rp_session_stop(session, NULL);
	return 0;
}
