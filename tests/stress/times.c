/* SPDX-License-Identifier: MIT */
/*
 * Event times are those of CLOCK_MONOTONIC. In sessions that request causal order, they order a
 * cause before its effect. The drain thread runs soon after an event, and never without a session.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/listener.h>

#include "stress.h"

#define PROVIDER "Stress-Times"

RP_PROVIDER(stress, PROVIDER);
STRESS_EVENTS(stress);

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Here the passing of time itself is the condition. */
static void let_time_pass(uint64_t ns)
{
	uint64_t until = now_ns() + ns;

	while (now_ns() < until) {
		struct timespec pause = { 0, 5000000 };

		nanosleep(&pause, NULL);
	}
}

/* How far an event's time is outside the clock's range from before to after its write. */
static uint64_t distance(uint64_t time, uint64_t before, uint64_t after)
{
	if (time < before)
		return before - time;
	return time > after ? time - after : 0;
}

#define TIMED_EVENTS 8u

static uint64_t time_some_events(void)
{
	struct rp_listener *listener = stress_listen(PROVIDER, 0, NULL, NULL);
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	uint64_t before[TIMED_EVENTS], after[TIMED_EVENTS], worst = 0;

	for (unsigned int i = 0; i < TIMED_EVENTS; i++) {
		before[i] = now_ns();
		stress_check(stress_any(0, i, "", 0) == 0, "an event was lost");
		after[i] = now_ns();
		let_time_pass(20000000);
	}
	for (unsigned int i = 0; i < TIMED_EVENTS; i++) {
		uint64_t off;

		if (!stress_check(rp_listener_next(listener, &event, 10000) == 1, "no event"))
			break;
		off = distance(event.time_ns, before[i], after[i]);
		worst = off > worst ? off : worst;
	}
	rp_listener_stop(listener, &stats);
	return worst;
}

/*
 * The limit applies to the values of the clocks, not to durations: before and after enclose the
 * write.
 */
static void times_are_the_clocks(void)
{
	unsigned int rounds = stress_rounds() + 4;
	uint64_t worst = 0;

	stress_begin("times_are_clock_monotonic_after_any_time_without_a_session");
	for (unsigned int i = 0; i < rounds; i++) {
		uint64_t off = time_some_events();

		worst = off > worst ? off : worst;
		let_time_pass(i % 2 ? 200000000 : 1500000000);
	}
	stress_check(worst < 200000, "an event's time is %" PRIu64 " ns off", worst);
	stress_note("times off by at most %" PRIu64 " ns", worst);
	stress_end();
}

#define ROUNDS_MIN 128u

/* A writes, then sets a flag; B sees the flag, then writes; and vice versa. */
struct handshake {
	struct stress_books books;
	uint64_t rounds;
	double until;
	uint64_t turn __attribute__((aligned(64)));
};

/* Spins, but yields the processor if the other side needs it. */
static bool wait_for_turn(struct handshake *shake, uint64_t turn)
{
	unsigned int spins = 0;

	while (__atomic_load_n(&shake->turn, __ATOMIC_ACQUIRE) < turn) {
		if (++spins % 1000 == 0)
			sched_yield();
	}
	return __atomic_load_n(&shake->turn, __ATOMIC_ACQUIRE) != UINT64_MAX;
}

static void *play_a(void *data)
{
	struct handshake *shake = data;

	for (uint64_t i = 0; i < shake->rounds; i++) {
		if (i >= ROUNDS_MIN && i % 64 == 0 && stress_seconds() > shake->until)
			break;
		stress_write(&shake->books.streams[0]);
		__atomic_store_n(&shake->turn, 2 * i + 1, __ATOMIC_RELEASE);
		wait_for_turn(shake, 2 * i + 2);
	}
	__atomic_store_n(&shake->turn, UINT64_MAX, __ATOMIC_RELEASE);
	return NULL;
}

static void *play_b(void *data)
{
	struct handshake *shake = data;

	for (uint64_t i = 0; wait_for_turn(shake, 2 * i + 1); i++) {
		stress_write(&shake->books.streams[1]);
		__atomic_store_n(&shake->turn, 2 * i + 2, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* In the file, A's serial n is between B's n - 1 and B's n. */
static uint64_t count_breaks(const char *path)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	uint64_t last[2] = { 0, 0 }, breaks = 0;
	struct rp_reader *reader;

	if (!stress_check(rp_reader_open(path, &reader) == 0, "opening the recording"))
		return 0;
	while (stress_next(reader, &event) == 1) {
		uint64_t id, serial;

		if (strcmp(event.type->provider, PROVIDER) != 0)
			continue;
		memcpy(&id, event.payload, 8);
		memcpy(&serial, (const char *)event.payload + 8, 8);
		if (id == 0)
			breaks += serial < last[1];
		else
			breaks += serial + 1 < last[0];
		last[id & 1] = serial + 1;
	}
	rp_reader_close(reader);
	return breaks;
}

static void causes_come_first(void)
{
	const char *path = stress_path("causal.nettrace");
	struct handshake shake = { .rounds = stress_amount(200000) * stress_rounds() };
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	struct rp_session *session;
	pthread_t a, b;
	uint64_t breaks;

	stress_begin("a_cause_comes_before_its_effect_in_a_causal_session");
	stress_books_init(&shake.books, 2, shake.rounds, stress_any);
	/* On a loaded machine a round may need two time slices: the test then does fewer rounds. */
	shake.until = stress_seconds() + 6 * stress_rounds();
	session = stress_start(PROVIDER, path, -1, 64u << 20, RP_SESSION_CAUSAL);
	stress_spawn(&a, play_a, &shake);
	stress_spawn(&b, play_b, &shake);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	stress_stop(session, &stats);
	stress_read_file(path, &shake.books, &tally);
	stress_settle(&shake.books, &tally, &stats);
	breaks = count_breaks(path);
	stress_check(breaks == 0, "%" PRIu64 " events before their cause", breaks);
	stress_stats(&shake.books, &stats);
	unlink(path);
	stress_books_fini(&shake.books);
	stress_end();
}

/* A thread that moves between processors as fast as the kernel permits. */
struct wanderer {
	pthread_t thread;
	struct stress_stream *stream;
	uint64_t serials;
	uint64_t slow;		/* writes that took at least HOLDER_NS */
	uint64_t longest_ns;	/* of its writes */
	int cpus[2];
};

/* A running session waits this long for a writer that holds a lock (core/holders.c). */
#define HOLDER_NS 10000000u

static void *wander(void *data)
{
	struct wanderer *wanderer = data;

	for (uint64_t i = 0; i < wanderer->serials; i++) {
		uint64_t begun, took;

		if (i % 16 == 0) {
			cpu_set_t set;

			CPU_ZERO(&set);
			CPU_SET(wanderer->cpus[i / 16 % 2], &set);
			(void)sched_setaffinity(0, sizeof(set), &set);
		}
		begun = now_ns();
		stress_write(wanderer->stream);
		took = now_ns() - begun;
		wanderer->slow += took >= HOLDER_NS;
		wanderer->longest_ns = took > wanderer->longest_ns ? took : wanderer->longest_ns;
	}
	return NULL;
}

static unsigned int find_two_cpus(int ret_cpus[2])
{
	unsigned int count = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 0;
	for (int i = 0; i < CPU_SETSIZE && count < 2; i++) {
		if (CPU_ISSET(i, &set))
			ret_cpus[count++] = i;
	}
	return count;
}

#define WANDERERS 3u

/*
 * Each thread alternates between two rings, with many events at one value of the clock. Only an
 * event may come late whose writer did not run for HOLDER_NS while it held a lock of the fallback.
 */
static void coarse_times_keep_the_order(void)
{
	const char *path = stress_path("coarse.nettrace");
	struct wanderer wanderers[WANDERERS] = { 0 };
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	uint64_t slow = 0, longest_ns = 0;
	struct stress_books books;
	struct rp_session *session;

	stress_begin("a_thread_that_changes_processors_keeps_its_order_in_a_coarse_session");
	if (find_two_cpus(wanderers[0].cpus) < 2) {
		stress_skip("one processor");
		return;
	}
	stress_books_init(&books, WANDERERS, stress_amount(40000) * stress_rounds(), stress_any);
	session = stress_start(PROVIDER, path, -1, 64u << 20, RP_SESSION_COARSE);
	for (unsigned int i = 0; i < WANDERERS; i++) {
		memcpy(wanderers[i].cpus, wanderers[0].cpus, sizeof(wanderers[i].cpus));
		wanderers[i].stream = &books.streams[i];
		wanderers[i].serials = stress_amount(40000) * stress_rounds();
		stress_spawn(&wanderers[i].thread, wander, &wanderers[i]);
	}
	for (unsigned int i = 0; i < WANDERERS; i++) {
		pthread_join(wanderers[i].thread, NULL);
		slow += wanderers[i].slow;
		longest_ns = wanderers[i].longest_ns > longest_ns ? wanderers[i].longest_ns :
								    longest_ns;
	}
	stress_stop(session, &stats);
	stress_read_file(path, &books, &tally);
	stress_settle(&books, &tally, &stats);
	stress_check(tally.coarse_reported == 1, "CoarseTime came %" PRIu64 " times",
		     tally.coarse_reported);
	stress_check(stats.clamped <= slow, "%" PRIu64 " events came late, but %" PRIu64
		     " writes took 10 ms, the longest %" PRIu64 " ns", stats.clamped, slow,
		     longest_ns);
	stress_stats(&books, &stats);
	unlink(path);
	stress_books_fini(&books);
	stress_end();
}

/* The process does nothing else: no full ring, no stop, no other event. */
static void lone_events_arrive(void)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_session_stats stats;
	struct rp_session *session;
	struct rp_reader *reader;
	int fds[2];

	stress_begin("a_lone_event_arrives_at_the_far_side_without_a_stop");
	stress_socketpair(fds);
	session = stress_start(PROVIDER, NULL, fds[0], 64u << 20, 0);
	if (!stress_check(rp_reader_open_fd(fds[1], &reader) == 0, "opening the socket"))
		exit(1);
	/* If an event never arrives, the test's own time limit ends the wait. */
	for (uint64_t i = 0; i < 20; i++) {
		uint64_t serial = 0;

		stress_check(stress_any(0, i, "", 0) == 0, "an event was lost");
		if (!stress_check(stress_next(reader, &event) == 1, "%s",
				  rp_reader_error(reader)))
			break;
		memcpy(&serial, (const char *)event.payload + 8, 8);
		stress_check(serial == i, "serial %" PRIu64 " instead of %" PRIu64, serial, i);
	}
	stress_stop(session, &stats);
	stress_check(stats.delivered == 20 && stats.lost == 0, "%" PRIu64 " delivered",
		     stats.delivered);
	stress_check(stress_next(reader, &event) == 0, "more than was written");
	rp_reader_close(reader);
	close(fds[1]);
	stress_end();
}

/* Return: voluntary context switches of ringpipe's threads, or -1 if there is no such thread. */
static long own_switches(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	long sum = -1;

	while (tasks && (entry = readdir(tasks)) != NULL) {
		char path[64], line[128], name[32] = "";
		long count;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", entry->d_name);
		file = fopen(path, "re");
		while (file && fgets(line, sizeof(line), file)) {
			sscanf(line, "Name: %31s", name);
			if (!strncmp(name, "ringpipe-", 9) &&
			    sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1)
				sum = (sum < 0 ? 0 : sum) + count;
		}
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

static void burn_cpu(uint64_t ms)
{
	clock_t until = clock() + (clock_t)(ms * CLOCKS_PER_SEC / 1000);

	while (clock() < until) {
		for (unsigned int i = 0; i < 1000; i++)
			stress_mark(0, i, "", 0);
	}
}

/*
 * The drain thread may still be going to sleep. A periodic wake-up would show in each span of 200
 * ms, so the test looks for one quiet span, and the next span must be quiet too.
 */
static void nothing_wakes_without_a_session(void)
{
	const char *path = stress_path("quiet.nettrace");
	struct rp_session_stats stats;
	struct rp_session *session;
	long before, after = -1;
	unsigned int spans = 0;

	stress_begin("no_thread_of_ringpipe_wakes_without_a_session");
	session = stress_start(PROVIDER, path, -1, 64u << 20, 0);
	stress_mark(0, 0, "", 0);
	stress_stop(session, &stats);
	unlink(path);
	do {
		before = own_switches();
		burn_cpu(200);
		after = own_switches();
	} while (before != after && ++spans < 10);
	stress_check(before > 0, "no thread of ringpipe was found");
	stress_check(before == after, "woken in each of 10 spans");
	burn_cpu(400);
	after = own_switches();
	stress_check(before == after, "%ld wake-ups with nothing to do", after - before);
	stress_end();
}

int main(void)
{
	times_are_the_clocks();
	causes_come_first();
	coarse_times_keep_the_order();
	lone_events_arrive();
	nothing_wakes_without_a_session();
	return stress_exit();
}
