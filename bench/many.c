/* SPDX-License-Identifier: MIT */
/*
 * Measures how costs grow with the number of sessions that want an event, of threads that write
 * simultaneously, of all threads, and of events and providers to register and enable.
 *
 *	many [MOST]	no more than MOST of anything
 */
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define ROUNDS 30u
#define EVENTS 1000u
#define SESSION_BYTES (1u << 20)	/* forty of them fit in a cache */
#define RECORD_BYTES 56u
#define PROVIDERS 4u
#define PROVIDER_EVENTS 50000u	/* ids have 16 bits */
#define THREADS_MAX 64u
#define THREAD_EVENTS 19200u	/* by all threads of a round */

RP_PROVIDER(bench, "Bench-Many");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static double clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void write_events(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bench_bytes32(i, i, i, i);
}

/* Touches all pages of the rings, as in a session that has run for a while. */
static void warm(size_t bytes)
{
	write_events((unsigned int)(2 * bytes / RECORD_BYTES));
}

static void sessions(unsigned int count)
{
	struct rp_session *list[RP_SESSIONS_MAX];
	uint64_t written;
	double best = 1e18, begun, took;

	for (unsigned int i = 0; i < count; i++)
		list[i] = bench_start("Bench-Many", "/dev/null", SESSION_BYTES, 0);
	bench_stay();
	warm(SESSION_BYTES);
	written = 2 * SESSION_BYTES / RECORD_BYTES;
	for (unsigned int i = 0; i < count; i++)
		bench_settle(list[i], written);
	/*
	 * With few sessions a round lasts microseconds and is often interrupted, so there are more
	 * rounds.
	 */
	for (unsigned int round = 0; round < bench_rounds(count < 8 ? 5 * ROUNDS : ROUNDS);
	     round++) {
		begun = now_ns();
		write_events(EVENTS);
		took = (now_ns() - begun) / EVENTS;
		best = took < best ? took : best;
		written += EVENTS;
		for (unsigned int i = 0; i < count; i++)
			bench_settle(list[i], written);
	}
	figure_point("sessions", count, best, "ns");
	for (unsigned int i = 0; i < count; i++)
		rp_session_stop(list[i], NULL);
	bench_stray();
}

struct job {
	pthread_t thread;
	pthread_barrier_t *start;
	unsigned int count;
	double ns;
};

static void *run_job(void *data)
{
	struct job *job = data;

	pthread_barrier_wait(job->start);
	job->ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	write_events(job->count);
	job->ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - job->ns;
	return NULL;
}

/* The writers' own time for an event, on all processors. */
static uint64_t written;

static void threads_at_once(struct rp_session *session, unsigned int count)
{
	struct job jobs[THREADS_MAX];
	pthread_barrier_t start;
	double best = 1e18, sum;

	for (unsigned int round = 0; round < bench_rounds(ROUNDS); round++) {
		sum = 0;
		pthread_barrier_init(&start, NULL, count);
		for (unsigned int i = 0; i < count; i++) {
			jobs[i].start = &start;
			jobs[i].count = THREAD_EVENTS / count;
			if (pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]) != 0)
				exit(1);
		}
		for (unsigned int i = 0; i < count; i++) {
			pthread_join(jobs[i].thread, NULL);
			sum += jobs[i].ns / (THREAD_EVENTS / count * count);
		}
		pthread_barrier_destroy(&start);
		best = sum < best ? sum : best;
		bench_settle(session, written += THREAD_EVENTS / count * count);
	}
	figure_point("simultaneous threads", count, best, "ns");
}

static void *short_life(void *data)
{
	write_events(data != NULL);
	return NULL;
}

static double run_threads(unsigned int count, void *writes)
{
	double begun = now_ns();
	pthread_t thread;

	for (unsigned int i = 0; i < count; i++) {
		if (pthread_create(&thread, NULL, short_life, writes) != 0)
			exit(1);
		pthread_join(thread, NULL);
	}
	return (now_ns() - begun) / count / 1e3;
}

static void threads_in_all(unsigned int count)
{
	double idle = run_threads(count, NULL), before = bench_resident_bytes(), writing;
	struct rp_session *session = bench_start("Bench-Many", "/dev/null", 1u << 20, 0);

	writing = run_threads(count, &idle);
	figure_point("thread that writes once", count, writing, "us");
	figure_point("thread that does not", count, idle, "us");
	figure_point("session and threads", count, (bench_resident_bytes() - before) / 1024, "kB");
	rp_session_stop(session, NULL);
	malloc_trim(0);
}

static void make_events(struct rp_provider *provider, unsigned int count)
{
	static const struct rp_field fields[] = { { .name = "a", .type = RP_TYPE_U64 } };
	struct rp_event *event;
	char name[32];

	for (uint32_t i = 1; i <= count; i++) {
		struct rp_event_decl decl = {
			.size = sizeof(decl), .id = i, .name = name, .fields = fields,
			.field_count = 1, .level = RP_LEVEL_INFORMATIONAL,
		};

		snprintf(name, sizeof(name), "event_%u", i);
		if (rp_event_create(provider, &decl, &event) != 0)
			exit(1);
	}
}

static void start_and_stop(const char *provider, const char *what, unsigned int count)
{
	double start = 1e18, stop = 1e18, begun, started;
	char curve[64];

	for (unsigned int i = 0; i < bench_rounds(10); i++) {
		struct rp_session *session;

		begun = now_ns();
		session = bench_start(provider, "/dev/null", 0, 0);
		started = now_ns();
		rp_session_stop(session, NULL);
		start = started - begun < start ? started - begun : start;
		stop = now_ns() - started < stop ? now_ns() - started : stop;
	}
	snprintf(curve, sizeof(curve), "start of a session, %s", what);
	figure_point(curve, count, start / 1e3, "us");
	snprintf(curve, sizeof(curve), "stop of a session, %s", what);
	figure_point(curve, count, stop / 1e3, "us");
}

/* `count` events of as few providers as possible. */
static void events(unsigned int count)
{
	struct rp_provider *list[PROVIDERS];
	double begun, before = bench_resident_bytes();
	unsigned int used = 0;
	char name[32];

	begun = now_ns();
	for (unsigned int left = count; left > 0; used++) {
		unsigned int some = left < PROVIDER_EVENTS ? left : PROVIDER_EVENTS;

		snprintf(name, sizeof(name), "Bench-Events-%u", used);
		if (used == PROVIDERS || rp_provider_create(name, NULL, NULL, &list[used]) != 0)
			exit(1);
		make_events(list[used], some);
		left -= some;
	}
	figure_point("creating an event", count, (now_ns() - begun) / count / 1e3, "us");
	figure_point("memory of events", count, (bench_resident_bytes() - before) / 1024, "kB");
	start_and_stop("*", "by events", count);
	for (unsigned int i = 0; i < used; i++)
		rp_provider_destroy(list[i]);
	malloc_trim(0);
}

/* `count` providers with one event each. */
static void providers(unsigned int count)
{
	struct rp_provider **list = calloc(count, sizeof(*list));
	double begun = now_ns();
	char name[32];

	if (!list)
		exit(1);
	for (unsigned int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "Bench-Provider-%u", i);
		if (rp_provider_create(name, NULL, NULL, &list[i]) != 0)
			exit(1);
		make_events(list[i], 1);
	}
	figure_point("creating a provider with an event", count, (now_ns() - begun) / count / 1e3,
		     "us");
	start_and_stop("*", "by providers", count);
	for (unsigned int i = 0; i < count; i++)
		rp_provider_destroy(list[i]);
	free(list);
	malloc_trim(0);
}

int main(int argc, char **argv)
{
	static const unsigned int session_counts[] = { 1, 2, 4, 8, 16, 32, RP_SESSIONS_MAX, 0 };
	unsigned int most = argc > 1 ? (unsigned int)atoi(argv[1]) : 100000;
	struct rp_session *session;

	for (const unsigned int *count = session_counts; *count; count++)
		sessions(*count);
	session = bench_start("Bench-Many", "/dev/null", 16u << 20, 0);
	for (unsigned int count = 1; count <= THREADS_MAX; count *= 2)
		threads_at_once(session, count);
	rp_session_stop(session, NULL);
	run_threads(100, NULL);		/* first, grow the stack cache */
	for (unsigned int count = 1; count <= most && count <= 10000; count *= 10)
		threads_in_all(count);
	for (unsigned int count = 1; count <= most; count *= 10)
		events(count);
	for (unsigned int count = 1; count <= most; count *= 10)
		providers(count);
	return 0;
}
