/* SPDX-License-Identifier: MIT */
/*
 * A signal handler that leaves by siglongjmp, or the cancellation of a thread, abandons a write,
 * possibly with the lock of a fallback ring held. The drain thread releases the lock when the
 * writer's frame or thread no longer exists. A call that never returned may be in the recording or
 * not, and is counted as lost at most once, as "damaged" or for the reason found before it was
 * abandoned. All other calls are exact. Later sessions are not affected.
 */
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stress.h"

#define PROVIDER "Stress-Leaving"
#define SERIALS 4000u
#define LEAVES 400u
#define JUMPS 100u
#define BURST 64u		/* by a writer that is to be cancelled */

RP_PROVIDER(stress, PROVIDER);
RP_EVENT(stress, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(stream), RP_U64(serial),
	 RP_BLOB(filling));

static __thread sigjmp_buf way_out;
static uint64_t leaves;

#if defined(__x86_64__)
#define TRAP_FLAG 0x100ull

/* Single-steps by signals; at the last step the writer leaves, if requested. */
static volatile uint64_t steps, last_step;

static void on_step(int signal)
{
	(void)signal;
	if (++steps == last_step)
		siglongjmp(way_out, 1);
}

static void step_through_write(struct stress_stream *stream, uint64_t until)
{
	steps = 0;
	last_step = until;
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
	stress_write(stream);
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~TRAP_FLAG);
}

/*
 * Leaves at any instruction, possibly with all locks held, so that a call is lost. A serial whose
 * call never returned keeps the fate STRESS_UNWRITTEN. The first step aborts a restartable section,
 * so these calls take the fallback.
 */
static void *write_and_leave(void *data)
{
	static uint64_t random = 3;
	struct stress_stream *stream = data;
	uint64_t all;

	step_through_write(stream, 0);
	all = steps;
	while (all && leaves < JUMPS && stream->next < SERIALS) {
		if (sigsetjmp(way_out, 1) == 0) {
			step_through_write(stream, 1 + stress_random(&random) % all);
		} else {
			leaves++;
			stress_write(stream);
		}
	}
	for (unsigned int i = 0; i < 100 && stream->next < SERIALS; i++)
		stress_write(stream);
	return NULL;
}

static void leave_by_jumps(struct stress_stream *stream)
{
	struct sigaction action = { .sa_handler = on_step }, usual;
	pthread_t writer;

	sigaction(SIGTRAP, &action, &usual);
	stress_spawn(&writer, write_and_leave, stream);
	pthread_join(writer, NULL);
	sigaction(SIGTRAP, &usual, NULL);
}
#endif

/* POSIX permits no function to be cancelled like this; ringpipe guarantees it for writes. */
static void *write_until_cancelled(void *data)
{
	struct stress_stream *stream = data;
	uint64_t end = stream->next + BURST < SERIALS ? stream->next + BURST : SERIALS;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	while (stream->next < end)
		stress_write(stream);
	while (true)
		sched_yield();
	return NULL;
}

static void cancel_in_the_middle(struct stress_stream *stream)
{
	uint64_t random = 7;

	while (stream->next < SERIALS && leaves < LEAVES) {
		uint64_t first = stream->next;
		pthread_t writer;
		void *result;

		stress_spawn(&writer, write_until_cancelled, stream);
		while (__atomic_load_n(&stream->next, __ATOMIC_RELAXED) == first)
			sched_yield();
		for (uint32_t spins = stress_random(&random) % 10000; spins; spins--)
			__asm__ volatile("" ::: "memory");
		pthread_cancel(writer);
		pthread_join(writer, &result);
		stress_check(result == PTHREAD_CANCELED, "a thread ended by itself");
		leaves++;
	}
}

/* Checks the session with abandoned writes, by serial. */
static void check_left(const struct stress_stream *stream, const struct rp_session_stats *stats)
{
	uint64_t lost = 0, vanished = 0, damaged = stats->lost_by[RP_LOSS_DAMAGED];

	for (uint64_t serial = 0; serial < stream->next; serial++) {
		uint8_t fate = stream->fate[serial];
		bool seen = stream->seen[serial] != 0;

		stress_check(fate == STRESS_UNWRITTEN || (fate == STRESS_OK) == seen,
			     "serial %" PRIu64 ": fate %u, %s", serial, fate,
			     seen ? "recorded" : "not recorded");
		lost += fate == STRESS_LOST;
		vanished += fate == STRESS_UNWRITTEN && !seen;
	}
	/* A call may have counted its loss, for any reason, before it was abandoned. */
	stress_check(stats->lost >= lost && stats->lost - lost <= vanished,
		     "%" PRIu64 " told as lost, %" PRIu64 " were by calls that returned, %" PRIu64
		     " vanished", stats->lost, lost, vanished);
	stress_check(damaged <= vanished, "%" PRIu64 " counted as damaged, %" PRIu64 " vanished",
		     damaged, vanished);
	stress_check(leaves > 0, "no call was left");
	stress_note("figure: %" PRIu64 " calls left, %" PRIu64 " of them not recorded, %" PRIu64
		    " counted as damaged", leaves, vanished, damaged);
}

static void writers_may_leave(void (*leave)(struct stress_stream *stream), const char *how,
			      uint32_t least_bytes)
{
	const char *path = stress_path("leaving.nettrace");
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	struct stress_books books;
	struct rp_session *session;

	stress_begin("a_writer_that_leaves_a_write_by_%s_is_reported_once", how);
#if defined(__SANITIZE_THREAD__)
	stress_skip("ThreadSanitizer is left with locks and signals of its own");
	return;
#endif
	leaves = 0;
	stress_books_init(&books, 1, SERIALS, stress_mark);
	books.streams[0].least_bytes = least_bytes;
	session = stress_start(PROVIDER, path, -1, 64u << 20, 0);
	leave(&books.streams[0]);
	stress_stop(session, &stats);
	stress_read_file(path, &books, &tally);
	stress_agree(&tally, &stats);
	check_left(&books.streams[0], &stats);
	stress_stats(&books, &stats);
	unlink(path);
	stress_books_fini(&books);
	stress_end();
}

/* In the same slot, with the same locks. */
static void later_sessions_do_not_suffer(void)
{
	const char *path = stress_path("leaving.nettrace");
	struct rp_session_stats stats;

	stress_begin("sessions_after_a_writer_left_are_exact_and_lose_nothing_to_it");
	for (unsigned int round = 0; round < 5; round++) {
		struct stress_tally tally = { 0 };
		struct stress_books books;
		struct rp_session *session;

		stress_books_init(&books, 1, 1000, stress_mark);
		session = stress_start(PROVIDER, path, -1, 64u << 20, 0);
		for (unsigned int i = 0; i < 1000; i++)
			stress_write(&books.streams[0]);
		stress_stop(session, &stats);
		stress_read_file(path, &books, &tally);
		stress_settle(&books, &tally, &stats);
		stress_check(stats.lost_by[RP_LOSS_DAMAGED] == 0,
			     "%" PRIu64 " counted as damaged by a session nobody left",
			     stats.lost_by[RP_LOSS_DAMAGED]);
		stress_stats(&books, &stats);
		unlink(path);
		stress_books_fini(&books);
	}
	stress_end();
}

/* A page that the copy cannot read: the fault's handler abandons the write. */
static uint8_t *unreadable;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(way_out, 1);
}

/* The same, but deterministic: the lock is held and the record half copied. */
static void writers_that_leave_in_the_middle_are_reported(void)
{
	static const unsigned int leaving = 2;	/* of four rings */
	struct sigaction action = { .sa_handler = on_fault }, usual;
	const char *path = stress_path("leaving.nettrace");
	volatile unsigned int left = 0;
	struct rp_session_stats stats;
	struct rp_session *session;

	stress_begin("each_writer_that_leaves_its_copy_half_done_is_reported_as_damaged");
	unreadable = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stress_check(unreadable != MAP_FAILED && sigaction(SIGSEGV, &action, &usual) == 0, "mmap");
	session = stress_start(PROVIDER, path, -1, 64u << 20, 0);
	while (left < leaving) {
		if (sigsetjmp(way_out, 1) == 0)
			(void)stress_mark(0, left, unreadable, 8192);
		else
			left++;
	}
	sigaction(SIGSEGV, &usual, NULL);
	stress_check(stress_mark(0, left, NULL, 0) == 0, "no ring was left");
	stress_stop(session, &stats);
	stress_check(stats.lost == leaving && stats.lost_by[RP_LOSS_DAMAGED] == leaving &&
		     stats.delivered == 1, "%" PRIu64 " delivered, %" PRIu64 " lost, %" PRIu64
		     " counted as damaged", stats.delivered, stats.lost,
		     stats.lost_by[RP_LOSS_DAMAGED]);
	stress_note("%u left, %" PRIu64 " damaged", left, stats.lost_by[RP_LOSS_DAMAGED]);
	munmap(unreadable, 8192);
	unlink(path);
	stress_end();
}

int main(void)
{
	writers_that_leave_in_the_middle_are_reported();
#if defined(__x86_64__)
	writers_may_leave(leave_by_jumps, "siglongjmp", 0);
	later_sessions_do_not_suffer();
#endif
	writers_may_leave(cancel_in_the_middle, "cancellation", 8192);
	later_sessions_do_not_suffer();
	return stress_exit();
}
