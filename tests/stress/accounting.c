/* SPDX-License-Identifier: MIT */
/*
 * Every offered event is either delivered or counted as lost. One session lasts for the whole life
 * of its writers, so every serial was offered to it.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/rseq.h>
#include <unistd.h>

#include "stress.h"

RP_PROVIDER(stress, "Stress-Accounting");
STRESS_EVENTS(stress);

/* About 4 MB: the rings of a session of 64 MB always hold that many. */
#define UNDELIVERED_MAX 40000u

struct writer {
	pthread_t thread;
	const struct stress_books *books;
	struct stress_stream *stream;
	uint64_t count;
	struct rp_session *no_deadline_with;	/* session to wait for; NULL: none */
	bool without_rseq;
};

static uint64_t undelivered(const struct writer *writer)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	uint64_t written = 0;

	for (size_t i = 0; i < writer->books->count; i++)
		written += __atomic_load_n(&writer->books->streams[i].done, __ATOMIC_RELAXED);
	rp_session_get_stats(writer->no_deadline_with, &stats);
	/* The session continues meanwhile. */
	return written > stats.delivered + stats.lost ? written - stats.delivered - stats.lost : 0;
}

static void *write_all(void *data)
{
	struct writer *writer = data;

	if (writer->without_rseq)
		stress_leave_rseq();
	for (uint64_t i = 0; i < writer->count; i++) {
		stress_write(writer->stream);
		while (writer->no_deadline_with && i % 64 == 63 &&
		       undelivered(writer) > UNDELIVERED_MAX)
			sched_yield();
	}
	return NULL;
}

enum { ALL_ALIKE, EVERY_OTHER_WITHOUT_RSEQ };

static void run_writers(struct stress_books *books, uint64_t count, int kind,
			struct rp_session *no_deadline_with)
{
	struct writer *writers = stress_alloc(books->count, sizeof(*writers));

	for (size_t i = 0; i < books->count; i++) {
		writers[i].stream = &books->streams[i];
		writers[i].count = count;
		writers[i].books = books;
		writers[i].no_deadline_with = no_deadline_with;
		writers[i].without_rseq = kind == EVERY_OTHER_WITHOUT_RSEQ && i % 2;
		stress_spawn(&writers[i].thread, write_all, &writers[i]);
	}
	for (size_t i = 0; i < books->count; i++)
		pthread_join(writers[i].thread, NULL);
	free(writers);
}

static void file_is_exact(size_t threads, size_t megabytes, bool no_deadline)
{
	uint64_t count = stress_amount(1000000) / threads;
	const char *path = stress_path("accounting.nettrace");
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	struct stress_books books;
	struct rp_session *session;

	stress_begin("serials_add_up_with_%zu_threads_in_%zu_mb", threads, megabytes);
	stress_books_init(&books, threads, count, stress_any);
	session = stress_start("Stress-Accounting", path, -1, megabytes << 20, 0);
	run_writers(&books, count, ALL_ALIKE, no_deadline ? session : NULL);
	stress_stop(session, &stats);
	stress_read_file(path, &books, &tally);
	stress_settle(&books, &tally, &stats);
	stress_check(stats.lost_by[RP_LOSS_SINK] == 0 && stats.lost_by[RP_LOSS_DAMAGED] == 0,
		     "losses that nothing here can cause");
	/*
	 * By chance, the holders of all fallback locks may be preempted simultaneously, or those of
	 * all but one. In the second case, all writers share one ring, which can become full.
	 */
	stress_check(!no_deadline || stats.lost == stats.lost_by[RP_LOSS_BUSY] +
		     (stats.lost_by[RP_LOSS_BUSY] ? stats.lost_by[RP_LOSS_FULL_FALLBACK] : 0),
		     "rings were full without overload");
	stress_stats(&books, &stats);
	unlink(path);
	stress_books_fini(&books);
	stress_end();
}

/* The peer reads nothing until the writers have finished, so the rings must overflow. */
static void overload_is_exact(size_t threads)
{
	uint64_t count = stress_amount(1000000) / threads;
	struct stress_far_side far_side;
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	struct stress_books books;
	struct rp_session *session;
	int fds[2];

	stress_begin("serials_add_up_with_%zu_threads_and_a_peer_that_does_not_read", threads);
	stress_books_init(&books, threads, count, stress_any);
	stress_socketpair(fds);
	session = stress_start("Stress-Accounting", NULL, fds[0], 1u << 20, 0);
	run_writers(&books, count, ALL_ALIKE, NULL);
	stress_far_side_start(&far_side, fds[1], &books, &tally);
	stress_stop(session, &stats);
	stress_far_side_join(&far_side);
	stress_settle(&books, &tally, &stats);
	/* With less than 8 MB, the rings, the sink and the socket may hold everything. */
	stress_check(stats.lost > 0 || count * threads < 100000,
		     "no loss, though nobody read what was written");
	stress_stats(&books, &stats);
	stress_books_fini(&books);
	stress_end();
}

/* Both kinds of writers, simultaneously in one session. */
static void unregistered_threads_are_exact(void)
{
	uint64_t count = stress_amount(1000000) / 8;
	const char *path = stress_path("accounting.nettrace");
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	struct stress_books books;
	struct rp_session *session;

	stress_begin("serials_add_up_with_and_without_rseq_in_one_session");
	if (__rseq_size == 0) {
		stress_skip("no thread here has rseq");
		return;
	}
	stress_books_init(&books, 8, count, stress_any);
	session = stress_start("Stress-Accounting", path, -1, 64u << 20, 0);
	/*
	 * Waiting makes the writers alternate; otherwise each would finish within its time slice.
	 */
	run_writers(&books, count, EVERY_OTHER_WITHOUT_RSEQ, session);
	stress_stop(session, &stats);
	stress_read_file(path, &books, &tally);
	stress_settle(&books, &tally, &stats);
	stress_stats(&books, &stats);
	unlink(path);
	stress_books_fini(&books);
	stress_end();
}

/* A payload that exceeds every ring counts as lost; the largest permitted one does not. */
static void too_big_is_counted(void)
{
	static uint8_t bytes[RP_PAYLOAD_MAX + 1];
	const char *path = stress_path("accounting.nettrace");
	size_t most = RP_PAYLOAD_MAX - 18;
	struct rp_session_stats stats;
	struct rp_session *session;

	stress_begin("payloads_too_big_are_refused_and_counted");
	session = stress_start("Stress-Accounting", path, -1, 64u << 20, 0);
	for (uint64_t i = 0; i < 100; i++) {
		stress_check(stress_mark(0, i, bytes, most + 1) == -EMSGSIZE,
			     "a payload too big was taken");
		stress_check(stress_mark(0, i, bytes, i % 2 ? 1 : most) == 0,
			     "the largest payload was not taken");
	}
	stress_stop(session, &stats);
	stress_check(stats.lost == 100 && stats.lost_by[RP_LOSS_TOO_BIG] == 100,
		     "%llu lost instead of 100", (unsigned long long)stats.lost);
	unlink(path);
	stress_end();
}

int main(void)
{
	static const size_t threads[] = { 1, 2, 8, 64 };

	for (unsigned int round = 0; round < stress_rounds(); round++) {
		for (size_t i = 0; i < sizeof(threads) / sizeof(*threads); i++) {
			file_is_exact(threads[i], 64, true);
			file_is_exact(threads[i], 1, false);
			overload_is_exact(threads[i]);
		}
		unregistered_threads_are_exact();
		too_big_is_counted();
	}
	return stress_exit();
}
