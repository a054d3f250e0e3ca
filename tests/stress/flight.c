/* SPDX-License-Identifier: MIT */
/*
 * A session that overwrites, under fire: whatever a snapshot says of its window is held against
 * what the writers know. Of each writer, serials in the window have no gap; the one after the last
 * was not written when the snapshot began; and the one before the first was written before the
 * window. Events that the library said it lost may be missing, and no others.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

RP_PROVIDER(stress, "Stress-Flight");
RP_EVENT(stress, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(writer), RP_U64(serial),
	 RP_BLOB(filling));

#define WRITERS_MAX 8u
#define LOG (1u << 22)			/* serials whose time a writer remembers */
#define SLACK_NS 2000000u		/* the recording's clock follows CLOCK_MONOTONIC */
#define LARGE_EVERY 4096u

struct writer {
	pthread_t thread;
	uint64_t id;
	uint64_t done;			/* serials below it are written */
	uint64_t *before_ns;		/* each write began after that; 1: the event was lost */
	bool large;			/* now and then */
	bool *stop;
};

/* What a snapshot says of a writer. */
struct seen {
	uint64_t first, next;		/* of the window; next 0: none seen */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *write_on(void *data)
{
	static const uint8_t filling[60000];
	struct writer *writer = data;
	uint64_t state = writer->id + 1;

	while (!__atomic_load_n(writer->stop, __ATOMIC_RELAXED)) {
		uint64_t serial = writer->done, *before = &writer->before_ns[serial % LOG];
		size_t size = stress_random(&state) % 200;

		if (writer->large && serial % LARGE_EVERY == 0)
			size = sizeof(filling) - size;
		__atomic_store_n(before, now_ns(), __ATOMIC_RELAXED);
		if (stress_mark(writer->id, serial, filling, size) != 0)
			__atomic_store_n(before, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&writer->done, serial + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* 0: the writer has come so far since that it remembers another in its place. */
static uint64_t began_ns(const struct writer *writer, uint64_t serial)
{
	uint64_t ns = __atomic_load_n(&writer->before_ns[serial % LOG], __ATOMIC_ACQUIRE);

	return __atomic_load_n(&writer->done, __ATOMIC_ACQUIRE) - serial < LOG ? ns : 0;
}

/* Or may have been. */
static bool was_lost(const struct writer *writer, uint64_t serial)
{
	return began_ns(writer, serial) <= 1;
}

static void take(const struct writer *writer, struct seen *seen, uint64_t serial)
{
	if (seen->next == 0)
		seen->first = serial;
	for (uint64_t missing = seen->next ? seen->next : serial; missing < serial; missing++) {
		if (!stress_check(was_lost(writer, missing), "writer %llu: %llu is missing, then "
				  "comes %llu", (unsigned long long)writer->id,
				  (unsigned long long)missing, (unsigned long long)serial))
			break;
	}
	stress_check(seen->next <= serial, "writer %llu: %llu came after %llu",
		     (unsigned long long)writer->id, (unsigned long long)serial,
		     (unsigned long long)seen->next);
	seen->next = serial + 1;
}

/* Return: events in the window. */
static uint64_t read_window(const char *path, const struct writer *writers, size_t count,
			    const struct rp_snapshot_info *info, struct seen *seen)
{
	struct rp_reader_event event = { .size = sizeof(event) };
	struct rp_reader_info file = { .size = sizeof(file) };
	struct rp_reader *reader;
	uint64_t inside = 0, window[2] = { 0, 0 }, ids[2];
	int ret;

	if (!stress_check(rp_reader_open(path, &reader) == 0, "cannot open the snapshot"))
		return 0;
	rp_reader_get_info(reader, &file);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		uint64_t time_ns = file.start_ticks + (uint64_t)event.time_ns;

		if (strcmp(event.type->name, "Snapshot") == 0)
			memcpy(window, event.payload, sizeof(window));
		if (strcmp(event.type->provider, "Stress-Flight") != 0 || time_ns < info->from_ns ||
		    time_ns > info->to_ns)
			continue;
		memcpy(ids, event.payload, sizeof(ids));
		if (!stress_check(ids[0] < count, "an event of writer %llu",
				  (unsigned long long)ids[0]))
			break;
		take(&writers[ids[0]], &seen[ids[0]], ids[1]);
		inside++;
	}
	stress_check(ret == 0, "reading ended with %d: %s", ret, rp_reader_error(reader));
	stress_check(window[0] == info->from_ns && window[1] == info->to_ns,
		     "the window in the file is another");
	rp_reader_close(reader);
	return inside;
}

/* Both ends of the window, as the writer knows them. */
static void check_ends(const struct writer *writer, const struct seen *seen, uint64_t done_before,
		       const struct rp_snapshot_info *info)
{
	uint64_t done = __atomic_load_n(&writer->done, __ATOMIC_ACQUIRE), first = seen->first;
	uint64_t serial;

	if (seen->next == 0) {
		first = done_before;
	} else {
		for (serial = seen->next; serial < done_before; serial++)
			stress_check(was_lost(writer, serial),
				     "writer %llu: %llu was written before the snapshot",
				     (unsigned long long)writer->id, (unsigned long long)serial);
	}
	for (serial = first; serial > 0 && done - (serial - 1) < LOG / 2; serial--) {
		uint64_t began = began_ns(writer, serial - 1);

		if (began == 1)
			continue;
		stress_check(began < info->from_ns + SLACK_NS,
			     "writer %llu: %llu was written %llu ns into the window",
			     (unsigned long long)writer->id, (unsigned long long)(serial - 1),
			     (unsigned long long)(began - info->from_ns));
		break;
	}
}

static uint64_t check_snapshot(struct rp_session *session, const struct writer *writers,
			       size_t count)
{
	const char *path = stress_path("flight.nettrace");
	struct rp_snapshot_info info = { .size = sizeof(info) };
	struct seen seen[WRITERS_MAX] = { 0 };
	uint64_t done[WRITERS_MAX], inside;

	for (size_t i = 0; i < count; i++)
		done[i] = __atomic_load_n(&writers[i].done, __ATOMIC_ACQUIRE);
	if (!stress_check(rp_session_snapshot(session, path, -1, &info) == 0, "no snapshot"))
		return 0;
	inside = read_window(path, writers, count, &info, seen);
	/* An empty window promises nothing. */
	for (size_t i = 0; i < count && info.from_ns < info.to_ns; i++)
		check_ends(&writers[i], &seen[i], done[i], &info);
	unlink(path);
	return inside;
}

static uint64_t sum_done(const struct writer *writers, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += __atomic_load_n(&writers[i].done, __ATOMIC_RELAXED);
	return sum;
}

static void windows_are_complete(size_t count, size_t megabytes, bool large)
{
	unsigned int snapshots = (STRESS_WATCHED ? 2 : 3) * stress_rounds(), useful = 0;
	struct rp_session *session = stress_start("Stress-Flight", NULL, -1, megabytes << 20,
						  RP_SESSION_OVERWRITE);
	struct writer writers[WRITERS_MAX] = { 0 };
	uint64_t inside = 0, written;
	bool stop = false;

	stress_begin("snapshots_of_%zu_mb_are_complete_with_%zu_threads%s", megabytes, count,
		     large ? "_and_large_payloads" : "");
	for (size_t i = 0; i < count; i++) {
		writers[i].id = i;
		writers[i].stop = &stop;
		writers[i].large = large;
		writers[i].before_ns = stress_alloc(LOG, sizeof(uint64_t));
		stress_spawn(&writers[i].thread, write_on, &writers[i]);
	}
	for (size_t i = 0; i < count; i++) {
		while (__atomic_load_n(&writers[i].done, __ATOMIC_RELAXED) == 0)
			sched_yield();
	}
	for (unsigned int i = 0; i < snapshots; i++) {
		uint64_t some = check_snapshot(session, writers, count);

		inside += some;
		useful += some > 0;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < count; i++)
		pthread_join(writers[i].thread, NULL);
	/* Nobody writes any more: now the window cannot be empty. */
	useful += check_snapshot(session, writers, count) > 0;
	written = sum_done(writers, count);
	stress_check(useful > 0, "no snapshot had an event in its window");
	stress_check(rp_session_stop(session, NULL) == 0, "the session ended with an error");
	for (size_t i = 0; i < count; i++)
		free(writers[i].before_ns);
	stress_note("figure: %u of %u windows had events, %llu on average; %llu written", useful,
		    snapshots + 1, (unsigned long long)(inside / (useful ? useful : 1)),
		    (unsigned long long)written);
	stress_end();
}

struct taker {
	pthread_t thread;
	const char *path;
	struct rp_session *session;
	int result;
};

static void *take_one(void *data)
{
	struct taker *taker = data;

	taker->result = rp_session_snapshot(taker->session, taker->path, -1, NULL);
	return NULL;
}

static void snapshots_at_once(void)
{
	struct rp_session *session = stress_start("Stress-Flight", NULL, -1, 8u << 20,
						  RP_SESSION_OVERWRITE);
	struct writer writer = { 0 };
	struct taker takers[4] = { 0 };
	bool stop = false;
	size_t done = 0;

	stress_begin("several_threads_take_snapshots_at_once");
	writer.stop = &stop;
	writer.before_ns = stress_alloc(LOG, sizeof(uint64_t));
	stress_spawn(&writer.thread, write_on, &writer);
	for (size_t i = 0; i < 4; i++) {
		takers[i].session = session;
		takers[i].path = stress_path("beside.nettrace");
		stress_spawn(&takers[i].thread, take_one, &takers[i]);
	}
	for (size_t i = 0; i < 4; i++) {
		pthread_join(takers[i].thread, NULL);
		/* They may be after one file: then some of them are refused. */
		stress_check(takers[i].result == 0 || takers[i].result == -EBUSY,
			     "a snapshot failed with %d", takers[i].result);
		done += takers[i].result == 0;
	}
	stress_check(done > 0, "none was taken");
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(writer.thread, NULL);
	stress_check(rp_session_stop(session, NULL) == 0, "the session ended with an error");
	free(writer.before_ns);
	unlink(stress_path("beside.nettrace"));
	stress_end();
}

int main(void)
{
	windows_are_complete(1, 8, true);
	windows_are_complete(8, STRESS_WATCHED ? 16 : 64, false);
	windows_are_complete(8, 8, true);
	snapshots_at_once();
	return stress_exit();
}
