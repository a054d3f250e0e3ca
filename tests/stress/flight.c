/* SPDX-License-Identifier: MIT */
/*
 * An overwriting session under load: the test compares each snapshot's window with the writers'
 * records. Each writer's serials in the window have no gap. The serial after the last was not yet
 * written when the snapshot began, and the one before the first was written before the window. Only
 * events that the library reported as lost may be missing.
 *
 * Unlimited writers may overwrite a whole ring while it is copied. The window is then empty, which
 * guarantees nothing. So a window may be empty only if the writers wrote more than a small part of
 * the buffer during the snapshot. During every other snapshot they write no more than that part,
 * and the window of each of these contains events.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

RP_PROVIDER(stress, "Stress-Flight");
RP_EVENT(stress, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(writer), RP_U64(serial),
	 RP_BLOB(filling));
RP_STATE_EVENT(stress, state, 2, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_BLOB(filling));

#define WRITERS_MAX 8u
#define LOG (1u << 22)			/* number of serials whose time a writer remembers */
#define SLACK_NS 2000000u		/* the recording's clock follows CLOCK_MONOTONIC */
#define LARGE_EVERY 4096u
#define LIMIT_DIVISOR 64u		/* the small part of the buffer */

struct writer {
	pthread_t thread;
	uint64_t id;
	uint64_t done;			/* lower serials are written */
	uint64_t bytes;			/* of payload, the current write included */
	uint64_t *before_ns;		/* a time before each write; 1: the event was lost */
	bool large;			/* some events are large */
	bool *stop;
	const unsigned int *limit;	/* the limited snapshot in progress; 0: none */
	size_t limit_bytes;		/* bytes of payload allowed during each */
};

/* Bytes that a writer wrote during a limited snapshot. */
struct limited {
	unsigned int snapshot;
	size_t bytes;
};

/* A writer's serials in a snapshot. */
struct seen {
	uint64_t first, next;		/* in the window; next 0: none */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Waits for the end of a limited snapshot if the writer has reached its limit. */
static void keep_limit(const struct writer *writer, size_t size, struct limited *limited)
{
	unsigned int limit = __atomic_load_n(writer->limit, __ATOMIC_ACQUIRE);

	if (limit != limited->snapshot)
		*limited = (struct limited){ .snapshot = limit };
	limited->bytes += size;
	while (limit && limited->bytes > writer->limit_bytes &&
	       __atomic_load_n(writer->limit, __ATOMIC_ACQUIRE) == limit &&
	       !__atomic_load_n(writer->stop, __ATOMIC_RELAXED))
		sched_yield();
}

static void *write_on(void *data)
{
	static const uint8_t filling[60000];
	struct writer *writer = data;
	uint64_t state = writer->id + 1;
	struct limited limited = { 0 };

	while (!__atomic_load_n(writer->stop, __ATOMIC_RELAXED)) {
		uint64_t serial = writer->done, *before = &writer->before_ns[serial % LOG];
		size_t size = stress_random(&state) % 200;

		if (writer->large && serial % LARGE_EVERY == 0)
			size = sizeof(filling) - size;
		keep_limit(writer, size, &limited);
		__atomic_store_n(&writer->bytes, writer->bytes + size, __ATOMIC_RELEASE);
		__atomic_store_n(before, now_ns(), __ATOMIC_RELAXED);
		if (stress_mark(writer->id, serial, filling, size) != 0)
			__atomic_store_n(before, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&writer->done, serial + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Return: 0 if the writer has since reused the entry for a later serial. */
static uint64_t began_ns(const struct writer *writer, uint64_t serial)
{
	uint64_t ns = __atomic_load_n(&writer->before_ns[serial % LOG], __ATOMIC_ACQUIRE);

	return __atomic_load_n(&writer->done, __ATOMIC_ACQUIRE) - serial < LOG ? ns : 0;
}

/* Whether the serial was lost, or may have been. */
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
	static const struct strict_serials serials = {
		"Stress-Flight", "mark", "writer", "serial",
	};
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_info file = RP_READER_INFO_INIT;
	struct strict_result strictly;
	struct rp_reader *reader;
	uint64_t inside = 0, window[2] = { 0, 0 }, ids[2];
	int ret;

	if (!stress_read_strictly(path, 0, &serials, &strictly) ||
	    !stress_check(rp_reader_open(path, &reader) == 0, "cannot open the snapshot"))
		return 0;
	stress_check(strictly.window_from_ns == info->from_ns &&
		     strictly.window_to_ns == info->to_ns && strictly.lost_reported == info->lost,
		     "the strict reader finds another window or %llu lost, not %llu",
		     (unsigned long long)strictly.lost_reported, (unsigned long long)info->lost);
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

/* Compares both ends of the window with the writer's records. */
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
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	struct seen seen[WRITERS_MAX] = { 0 };
	uint64_t done[WRITERS_MAX], inside;

	for (size_t i = 0; i < count; i++)
		done[i] = __atomic_load_n(&writers[i].done, __ATOMIC_ACQUIRE);
	if (!stress_check(rp_session_snapshot(session, path, -1, &info) == 0, "no snapshot"))
		return 0;
	inside = read_window(path, writers, count, &info, seen);
	/* An empty window guarantees nothing. */
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

static uint64_t sum_bytes(const struct writer *writers, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += __atomic_load_n(&writers[i].bytes, __ATOMIC_ACQUIRE);
	return sum;
}

/* Return: events in the window, of which there are some unless the writers wrote too much. */
static uint64_t check_useful(struct rp_session *session, const struct writer *writers,
			     size_t count, uint64_t limit_bytes)
{
	uint64_t before = sum_bytes(writers, count), bytes;
	uint64_t inside = check_snapshot(session, writers, count);

	bytes = sum_bytes(writers, count) - before;
	stress_check(inside > 0 || bytes > limit_bytes,
		     "no event in the window, though only %llu bytes were written meanwhile",
		     (unsigned long long)bytes);
	return inside;
}

static void windows_are_complete(size_t count, size_t megabytes, bool large)
{
	unsigned int snapshots = (STRESS_WATCHED ? 2 : 4) * stress_rounds(), useful = 0;
	struct rp_session *session = stress_start("Stress-Flight", NULL, -1, megabytes << 20,
						  RP_SESSION_OVERWRITE);
	struct writer writers[WRITERS_MAX] = { 0 };
	const uint64_t limit_bytes = (megabytes << 20) / LIMIT_DIVISOR;
	uint64_t inside = 0, some, written;
	unsigned int limit = 0;
	bool stop = false;

	stress_begin("snapshots_of_%zu_mb_are_complete_with_%zu_threads%s", megabytes, count,
		     large ? "_and_large_payloads" : "");
	for (size_t i = 0; i < count; i++) {
		writers[i].id = i;
		writers[i].stop = &stop;
		writers[i].large = large;
		writers[i].limit = &limit;
		writers[i].limit_bytes = limit_bytes / count;
		writers[i].before_ns = stress_alloc(LOG, sizeof(uint64_t));
		stress_spawn(&writers[i].thread, write_on, &writers[i]);
	}
	for (size_t i = 0; i < count; i++) {
		while (__atomic_load_n(&writers[i].done, __ATOMIC_RELAXED) == 0)
			sched_yield();
	}
	for (unsigned int i = 0; i < snapshots; i++) {
		unsigned int number = i % 2 ? i : 0;

		__atomic_store_n(&limit, number, __ATOMIC_RELEASE);
		some = check_useful(session, writers, count, limit_bytes);
		inside += some;
		useful += some > 0;
		stress_check(!number || some > 0, "snapshot %u has no event in its window", i);
	}
	__atomic_store_n(&limit, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < count; i++)
		pthread_join(writers[i].thread, NULL);
	/* All writers have ended, so the window cannot be empty. */
	some = check_snapshot(session, writers, count);
	useful += some > 0;
	stress_check(some > 0, "the last snapshot has no event in its window");
	written = sum_done(writers, count);
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

static void simultaneous_snapshots(void)
{
	struct rp_session *session = stress_start("Stress-Flight", NULL, -1, 8u << 20,
						  RP_SESSION_OVERWRITE);
	struct writer writer = { 0 };
	struct taker takers[4] = { 0 };
	unsigned int limit = 0;
	bool stop = false;
	size_t done = 0;

	stress_begin("several_threads_take_snapshots_simultaneously");
	writer.stop = &stop;
	writer.limit = &limit;
	writer.before_ns = stress_alloc(LOG, sizeof(uint64_t));
	stress_spawn(&writer.thread, write_on, &writer);
	for (size_t i = 0; i < 4; i++) {
		takers[i].session = session;
		takers[i].path = stress_path("beside.nettrace");
		stress_spawn(&takers[i].thread, take_one, &takers[i]);
	}
	for (size_t i = 0; i < 4; i++) {
		pthread_join(takers[i].thread, NULL);
		/* Several takers may request the same file: then some of them are refused. */
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

/*
 * A handler interrupts a write of its thread that holds a fallback lock, and further handlers do
 * the same until all locks are held. The next event is then lost as `busy`.
 */
static uint8_t *unreadable;
static unsigned int depth;
static uint64_t too_big, busy, damaged, full;	/* that snapshots report */

#define DEPTH 8u		/* more than the number of fallback rings */
#define LARGE_BYTES 40960u

static void on_fault(int number)
{
	uint8_t *page = unreadable + (++depth) * LARGE_BYTES - 4096;

	(void)number;
	if (depth < DEPTH)
		busy += stress_mark(0, depth, unreadable + depth * LARGE_BYTES, LARGE_BYTES) ==
			-ENOBUFS;
	mprotect(page, 4096, PROT_READ);
}

static __attribute__((unused)) void write_until_busy(void)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER }, usual;

	depth = 0;
	unreadable = mmap(NULL, DEPTH * LARGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	stress_check(unreadable != MAP_FAILED, "no memory");
	for (unsigned int i = 1; i <= DEPTH; i++)
		mprotect(unreadable + i * LARGE_BYTES - 4096, 4096, PROT_NONE);
	sigaction(SIGSEGV, &action, &usual);
	stress_mark(0, 0, unreadable, LARGE_BYTES);
	sigaction(SIGSEGV, &usual, NULL);
	munmap(unreadable, DEPTH * LARGE_BYTES);
}

static sigjmp_buf way_out;

static void leave(int number)
{
	(void)number;
	siglongjmp(way_out, 1);
}

/* A handler that does not return leaves a fallback's lock held, and a record without its end. */
static __attribute__((unused)) void leave_write(void)
{
	struct sigaction action = { .sa_handler = leave }, usual;
	uint8_t *page = mmap(NULL, 2 * LARGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	stress_check(page != MAP_FAILED, "no memory");
	mprotect(page + LARGE_BYTES - 4096, 4096, PROT_NONE);
	sigaction(SIGSEGV, &action, &usual);
	if (sigsetjmp(way_out, 1) == 0) {
		stress_mark(0, 0, page, LARGE_BYTES);
		stress_check(false, "the write was not left");
	}
	sigaction(SIGSEGV, &usual, NULL);
	munmap(page, 2 * LARGE_BYTES);
	damaged++;
}

/* Overwrites the frame of the write that was left, as other calls of a program do. */
static __attribute__((unused, noinline)) void overwrite_stack(void)
{
	volatile uint8_t frame[64u << 10];

	for (size_t i = 0; i < sizeof(frame); i++)
		frame[i] = (uint8_t)i;
}

/* Waits until the drain thread has found that the writer left. */
static __attribute__((unused)) void await_damaged(struct rp_session *session)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	do {
		overwrite_stack();
		sched_yield();
		rp_session_get_stats(session, &stats);
	} while (stats.lost_by[RP_LOSS_DAMAGED] < damaged);
}

/* State events are not overwritten, so their rings get full. Large ones use the fallback. */
static void fill_state_rings(void)
{
	static const uint8_t filling[LARGE_BYTES];

	for (uint64_t serial = 0; full < 10 && serial < 1000; serial++)
		full += stress_state(serial, filling, sizeof(filling)) == -ENOBUFS;
	stress_check(full == 10, "%llu state events lost, not 10", (unsigned long long)full);
}

static void check_reason(const struct strict_result *result, const char *reason, uint64_t count)
{
	uint64_t found = strict_lost(result, reason);

	stress_check(found == count, "%s: %llu, not %llu", reason, (unsigned long long)found,
		     (unsigned long long)count);
}

/* Checks the losses of a snapshot, by reason, with the strict reader. */
static void check_losses(struct rp_session *session)
{
	const uint64_t lost = too_big + busy + damaged + full;
	const char *path = stress_path("losses.nettrace");
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	struct strict_result result;

	if (!stress_check(rp_session_snapshot(session, path, -1, &info) == 0, "no snapshot") ||
	    !stress_read_strictly(path, 0, NULL, &result))
		return;
	stress_check(info.lost == lost && result.lost_reported == info.lost,
		     "%llu lost, %llu told, not %llu", (unsigned long long)info.lost,
		     (unsigned long long)result.lost_reported, (unsigned long long)lost);
	check_reason(&result, "too-big", too_big);
	check_reason(&result, "busy", busy);
	check_reason(&result, "damaged", damaged);
	check_reason(&result, "full-fallback", full);
	unlink(path);
}

static void losses_are_in_snapshots(void)
{
	static const uint8_t filling[RP_PAYLOAD_MAX];
	struct rp_session *session = stress_start("Stress-Flight", NULL, -1, 8u << 20,
						  RP_SESSION_OVERWRITE);

	stress_begin("snapshots_state_losses_of_every_reason");
	/* In sections, the writers would hold no locks. */
	stress_leave_rseq();
	for (; too_big < 3; too_big++)
		stress_check(stress_mark(0, too_big, filling, sizeof(filling)) == -EMSGSIZE,
			     "it was not too big");
	check_losses(session);
	fill_state_rings();
	check_losses(session);
	/* ThreadSanitizer blocks faults in a handler. */
#ifndef __SANITIZE_THREAD__
	write_until_busy();
	stress_check(busy > 0, "not all locks were held");
	check_losses(session);
	for (unsigned int i = 0; i < 3; i++) {
		leave_write();
		await_damaged(session);
		check_losses(session);
	}
#endif
	stress_check(rp_session_stop(session, NULL) == 0, "the session ended with an error");
	stress_end();
}

int main(void)
{
	windows_are_complete(1, 8, true);
	windows_are_complete(8, STRESS_WATCHED ? 16 : 64, false);
	windows_are_complete(8, 8, true);
	simultaneous_snapshots();
	losses_are_in_snapshots();
	return stress_exit();
}
