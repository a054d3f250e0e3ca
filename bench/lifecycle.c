/* SPDX-License-Identifier: MIT */
/*
 * Measures start and stop of a session with 10,000 registered events, the delay of a lone event,
 * the memory of a session, and the memory of threads: 10,000 that each wrote once, compared with
 * 10,000 idle ones.
 */
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define EVENTS 10000u
#define ROUNDS 100u
#define THREADS 10000u
#define LONE_EVENTS 50u

RP_PROVIDER(bench, "Bench-Threads");
RP_EVENT(bench, once, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a));

static void make_events(void)
{
	struct rp_provider *provider;
	struct rp_event *event;
	char name[32];

	if (rp_provider_create("Bench-Many", NULL, NULL, &provider) != 0)
		exit(1);
	for (uint32_t i = 1; i <= EVENTS; i++) {
		static const struct rp_field fields[] = {
			{ .name = "a", .type = RP_TYPE_U64 },
		};
		struct rp_event_decl decl = {
			.size = sizeof(decl), .id = i, .name = name, .fields = fields,
			.field_count = 1, .level = RP_LEVEL_INFORMATIONAL,
		};

		snprintf(name, sizeof(name), "event_%u", i);
		if (rp_event_create(provider, &decl, &event) != 0)
			exit(1);
	}
}

static void start_and_stop(void)
{
	double start[ROUNDS], stop[ROUNDS];

	for (unsigned int i = 0; i < bench_rounds(ROUNDS); i++) {
		double begun = now_ns(), started;
		struct rp_session *session = bench_start("Bench-Many", "/dev/null", 0, 0);

		started = now_ns();
		rp_session_stop(session, NULL);
		start[i] = (started - begun) / 1e6;
		stop[i] = (now_ns() - started) / 1e6;
	}
	sort_rounds(start, bench_rounds(ROUNDS));
	sort_rounds(stop, bench_rounds(ROUNDS));
	figure("start, 10,000 events, best", start[0], "ms");
	figure("start, 10,000 events, median", start[bench_rounds(ROUNDS) / 2], "ms");
	figure("stop, 10,000 events, best", stop[0], "ms");
	figure("stop, 10,000 events, median", stop[bench_rounds(ROUNDS) / 2], "ms");
}

static double resident_kb(void)
{
	return bench_resident_bytes() / 1024;
}

static int writes;

static void *short_life(void *data)
{
	if (writes)
		bench_once((uint64_t)(uintptr_t)data);
	return NULL;
}

static double run_threads(void)
{
	double before = resident_kb();
	pthread_t thread;

	for (uintptr_t i = 0; i < THREADS; i++) {
		if (pthread_create(&thread, NULL, short_life, (void *)i) != 0)
			exit(1);
		pthread_join(thread, NULL);
	}
	return resident_kb() - before;
}

static void idle_session(void)
{
	double before = resident_kb();
	struct rp_session *session = bench_start("Bench-Threads", "/dev/null", 64u << 20, 0);

	figure("a session with 64 MB of unwritten rings", resident_kb() - before, "kB");
	rp_session_stop(session, NULL);
}

/* When the listener's callback got the single event. */
static double heard_at;

static void hear(const struct rp_listener_event *event, void *data)
{
	double now = now_ns();

	(void)event, (void)data;
	__atomic_store(&heard_at, &now, __ATOMIC_RELEASE);
}

static void lone_events(void)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "Bench-Threads", .level = RP_LEVEL_VERBOSE,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
	};
	struct rp_listener *listener;
	double took[LONE_EVENTS];

	if (rp_listener_start(&options, hear, NULL, &listener) != 0)
		exit(1);
	for (unsigned int i = 0; i < bench_rounds(LONE_EVENTS); i++) {
		double begun = now_ns(), at;

		bench_once(i);
		do {
			usleep(1000);
			__atomic_load(&heard_at, &at, __ATOMIC_ACQUIRE);
		} while (at < begun);
		took[i] = (at - begun) / 1e6;
	}
	rp_listener_stop(listener, NULL);
	sort_rounds(took, bench_rounds(LONE_EVENTS));
	figure("a lone event reaches its listener, best", took[0], "ms");
	figure("a lone event reaches its listener, worst of 50",
	       took[bench_rounds(LONE_EVENTS) - 1], "ms");
}

static void threads(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;
	double idle, before;

	run_threads();		/* first, grow the allocator and the stack cache */
	idle = run_threads();
	before = resident_kb();
	session = bench_start("Bench-Threads", "/dev/null", 1u << 20, 0);
	writes = 1;
	figure("10,000 threads that write once, 1 MB session", run_threads() - idle, "kB");
	rp_session_stop(session, &stats);
	malloc_trim(0);
	figure("of them delivered", (double)stats.delivered, "events");
	figure("left after stop", resident_kb() - before, "kB");
}

int main(void)
{
	double before = resident_kb();

	make_events();
	figure("a dynamic event", (resident_kb() - before) * 1024 / EVENTS, "B");
	start_and_stop();
	idle_session();
	lone_events();
	threads();
	return 0;
}
