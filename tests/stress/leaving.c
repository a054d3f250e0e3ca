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
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stress.h"

#define PROVIDER "Stress-Leaving"
#define SERIALS 4000u
#define LEAVES 400u
#define JUMPS 100u
#define BURST 64u		/* by a writer that is to be cancelled */
#define LEAVERS 40u		/* more than the fallback has locks */

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

static bool leave_by_exit;
/* In sections, the writers of an overwriting session would hold no lock. */
static bool leave_without_rseq;

static void on_fault_leave(int signal)
{
	if (leave_by_exit)
		pthread_exit(NULL);
	on_fault(signal);
}

/* Abandons one write in the middle, as soon as a lock is free for it. */
static void *leave_once(void *data)
{
	volatile uint64_t *left = data;

	if (leave_without_rseq)
		stress_leave_rseq();
	if (sigsetjmp(way_out, 1) == 0) {
		(*left)++;
		while (stress_mark(0, *left, unreadable, 8192) != 0)
			sched_yield();
	}
	return NULL;
}

/* Overwrites the abandoned frames, as later calls of a program do. */
static __attribute__((noinline)) void use_stack(void)
{
	volatile uint8_t frame[65536];

	for (size_t i = 0; i < sizeof(frame); i++)
		frame[i] = (uint8_t)i;
}

/* How the session of a test records. */
enum form { FORM_RUNS, FORM_BLOCKS, FORM_OVERWRITES, FORM_RECOVERABLE };

static const char *const form_names[] = { "runs", "blocks", "overwrites", "is_recoverable" };

static struct rp_session *start_form(enum form form)
{
	char output[256], parent[256];
	const struct rp_session_provider provider = {
		.size = sizeof(provider),
		.name = PROVIDER,
		.keywords = UINT64_MAX,
		.level = RP_LEVEL_VERBOSE,
	};
	const struct rp_session_options options = {
		.size = sizeof(options),
		.providers = &provider,
		.provider_count = 1,
		.output_path = output,
		.output_fd = -1,
		.format = nettrace_version(),
		.flags = form == FORM_OVERWRITES ? RP_SESSION_OVERWRITE : 0,
		.block_ms = form == FORM_BLOCKS ? 3600000 : 0,
		.recover_path = form == FORM_RECOVERABLE ? parent : NULL,
	};
	struct rp_session *session = NULL;

	snprintf(output, sizeof(output), "%s", stress_path("leaving.nettrace"));
	snprintf(parent, sizeof(parent), "%s", stress_path("."));
	stress_check(rp_session_start(&options, &session) == 0, "no session");
	return session;
}

/*
 * More writers leave than there are locks, so each lock must be reused; and the session reports the
 * losses while it runs. A writer that waits for a lock gets one of those that were abandoned.
 */
static void locks_of_writers_that_left_serve_others(bool by_exit, enum form form)
{
	struct sigaction action = { .sa_handler = on_fault_leave }, usual;
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	static uint8_t large[8192];
	struct rp_session *session;
	uint64_t left = 0;
	pthread_t writer;

	stress_begin("locks_of_writers_that_%s_serve_others_while_the_session_%s",
		     by_exit ? "ended" : "left", form_names[form]);
	leave_by_exit = by_exit;
	leave_without_rseq = form == FORM_OVERWRITES;
	unreadable = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stress_check(unreadable != MAP_FAILED && sigaction(SIGSEGV, &action, &usual) == 0, "mmap");
	session = start_form(form);
	while (left < LEAVERS) {
		if (by_exit) {
			stress_spawn(&writer, leave_once, &left);
			pthread_join(writer, NULL);
		} else {
			leave_once(&left);
		}
	}
	sigaction(SIGSEGV, &usual, NULL);
	while (stress_mark(0, left, large, sizeof(large)) != 0)
		sched_yield();
	use_stack();
	while (stats.lost_by[RP_LOSS_DAMAGED] < LEAVERS)
		stress_check(rp_session_get_stats(session, &stats) == 0, "no stats");
	stress_stop(session, &stats);
	stress_check(stats.lost_by[RP_LOSS_DAMAGED] == LEAVERS && stats.delivered == 1 &&
		     stats.lost_by[RP_LOSS_BLOCKED] == 0,
		     "%" PRIu64 " delivered, %" PRIu64 " damaged, %" PRIu64 " blocked",
		     stats.delivered, stats.lost_by[RP_LOSS_DAMAGED],
		     stats.lost_by[RP_LOSS_BLOCKED]);
	munmap(unreadable, 8192);
	unlink(stress_path("leaving.nettrace"));
	stress_end();
}

/*
 * After a writer left its write, the next pass of the drain thread releases the lock, at most 60 ms
 * later. The kernel may still have a thread that pthread_join(3) reported as ended. Each flush
 * waits for a pass that began after the call.
 */
#define PASSES 3u
#define FLUSH_MS 600000

static void check_after(unsigned int passes, struct rp_session *session, uint64_t left)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	for (unsigned int i = 0; i < passes; i++) {
		use_stack();
		stress_check(rp_sessions_flush(FLUSH_MS) == 0, "no flush");
	}
	stress_check(rp_session_get_stats(session, &stats) == 0 &&
		     stats.lost_by[RP_LOSS_DAMAGED] == left,
		     "%" PRIu64 " counted as damaged after %u passes, not %" PRIu64,
		     stats.lost_by[RP_LOSS_DAMAGED], passes, left);
}

/* The stack of a writer, without addresses of earlier calls, or that of its handlers. */
#define STACK_BYTES (256u << 10)

static sem_t handler_runs, handler_ends;

static void on_fault_sleep(int signal)
{
	(void)signal;
	sem_post(&handler_runs);
	while (sem_wait(&handler_ends) != 0)
		;
	mprotect(unreadable, 8192, PROT_READ);
}

/* Handlers may run on a stack that is further out than the write that they interrupt. */
static void *write_above_stack_of_handlers(void *data)
{
	uint8_t space[STACK_BYTES / 4];
	const stack_t stack = { .ss_sp = data ? data : space, .ss_size = sizeof(space) };
	const stack_t none = { .ss_flags = SS_DISABLE };

	stress_check(sigaltstack(&stack, NULL) == 0, "sigaltstack");
	stress_check(stress_mark(0, 0, unreadable, 8192) == 0, "the event was lost");
	stress_check(sigaltstack(&none, NULL) == 0, "sigaltstack");
	return NULL;
}

enum place { FURTHER_IN, FURTHER_OUT, ABOVE };

static const char *const place_names[] = { "further_in", "further_out", "above_the_stack" };

static void writer_keeps_its_lock_while_a_handler_sleeps(enum place place)
{
	struct sigaction action = {
		.sa_handler = on_fault_sleep, .sa_flags = place == FURTHER_IN ? 0 : SA_ONSTACK,
	}, usual;
	uint8_t *stacks = mmap(NULL, STACK_BYTES * 2, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rp_session_stats stats;
	struct rp_session *session;
	pthread_attr_t attributes;
	pthread_t writer;

	stress_begin("a_writer_keeps_its_lock_while_a_handler_sleeps_%s", place_names[place]);
	stress_check(stacks != MAP_FAILED && pthread_attr_init(&attributes) == 0 &&
		     pthread_attr_setstack(&attributes, stacks, STACK_BYTES) == 0, "stacks");
	unreadable = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stress_check(unreadable != MAP_FAILED && sigaction(SIGSEGV, &action, &usual) == 0 &&
		     sem_init(&handler_runs, 0, 0) == 0 && sem_init(&handler_ends, 0, 0) == 0,
		     "mmap");
	session = start_form(FORM_RUNS);
	stress_check(pthread_create(&writer, &attributes, write_above_stack_of_handlers,
				    place == ABOVE ? stacks + STACK_BYTES : NULL) == 0, "thread");
	while (sem_wait(&handler_runs) != 0)
		;
	check_after(PASSES, session, 0);
	sem_post(&handler_ends);
	pthread_join(writer, NULL);
	sigaction(SIGSEGV, &usual, NULL);
	stress_stop(session, &stats);
	stress_check(stats.lost == 0 && stats.delivered == 1, "%" PRIu64 " delivered, %" PRIu64
		     " lost", stats.delivered, stats.lost);
	sem_destroy(&handler_runs);
	sem_destroy(&handler_ends);
	munmap(stacks, STACK_BYTES * 2);
	munmap(unreadable, 8192);
	unlink(stress_path("leaving.nettrace"));
	stress_end();
}

/* In a process that may not read its own files in /proc, as after setuid(2), if `restricts`. */
static void restrict_process(bool restricts)
{
	if (geteuid() == 0 || getuid() == 0)
		stress_check(seteuid(restricts ? 65534 : 0) == 0, "seteuid");
	stress_check(prctl(PR_SET_DUMPABLE, !restricts) == 0, "prctl");
}

static void lock_that_was_left_is_free_after_a_few_passes(bool by_exit, bool restricts)
{
	struct sigaction action = { .sa_handler = on_fault_leave }, usual;
	const char *path = stress_path("leaving.nettrace");
	struct rp_session_stats stats;
	static uint8_t large[8192];
	struct rp_session *session;
	uint64_t left = 0;
	pthread_t writer;

	stress_begin("lock_of_a_writer_that_%s_is_free_after_a_few_passes%s",
		     by_exit ? "ended" : "left", restricts ? "_without_proc" : "");
	leave_by_exit = by_exit;
	unreadable = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stress_check(unreadable != MAP_FAILED && sigaction(SIGSEGV, &action, &usual) == 0, "mmap");
	session = start_form(FORM_RUNS);
	if (restricts)
		restrict_process(true);
	while (left < LEAVERS) {
		if (by_exit) {
			stress_spawn(&writer, leave_once, &left);
			pthread_join(writer, NULL);
		} else {
			leave_once(&left);
		}
		check_after(by_exit ? PASSES : 1, session, left);
		stress_check(stress_mark(0, left, large, sizeof(large)) == 0, "no lock is free");
	}
	if (restricts)
		restrict_process(false);
	sigaction(SIGSEGV, &usual, NULL);
	stress_stop(session, &stats);
	stress_check(stats.lost == left && stats.delivered == left,
		     "%" PRIu64 " delivered, %" PRIu64 " lost, of %" PRIu64 " each",
		     stats.delivered, stats.lost, left);
	munmap(unreadable, 8192);
	unlink(path);
	stress_end();
}

static pthread_barrier_t idle_end;

/* Leaves the write so far in that no frame in use can refer to its surroundings. */
static __attribute__((noinline)) void leave_far_in(void *data)
{
	volatile uint8_t gap[128 << 10];

	gap[0] = 0;
	leave_once(data);
	(void)gap[0];
}

static void *leave_and_sleep(void *data)
{
	leave_far_in(data);
	pthread_barrier_wait(&idle_end);
	return NULL;
}

static void *check_locks(void *session)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	static uint8_t large[8192];

	while (stats.lost_by[RP_LOSS_DAMAGED] < LEAVERS) {
		stress_check(rp_session_get_stats(session, &stats) == 0, "no stats");
		sched_yield();
	}
	stress_check(stress_mark(0, 0, large, sizeof(large)) == 0, "no lock is free");
	pthread_barrier_wait(&idle_end);
	return NULL;
}

/*
 * Threads that left a write and then sleep overwrite nothing of it, the main thread included. One
 * of them may have to wait for a lock that another one left.
 */
static void locks_of_idle_threads_that_left_serve_others(enum form form)
{
	struct sigaction action = { .sa_handler = on_fault }, usual;
	struct rp_session_stats stats;
	static uint64_t left[LEAVERS];
	pthread_t threads[LEAVERS];
	struct rp_session *session;

	stress_begin("locks_of_idle_threads_that_left_serve_others_while_the_session_%s",
		     form_names[form]);
	unreadable = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stress_check(unreadable != MAP_FAILED && sigaction(SIGSEGV, &action, &usual) == 0 &&
		     pthread_barrier_init(&idle_end, NULL, LEAVERS + 1) == 0, "mmap");
	session = start_form(form);
	stress_spawn(&threads[0], check_locks, session);
	for (unsigned int i = 1; i < LEAVERS; i++)
		stress_spawn(&threads[i], leave_and_sleep, &left[i]);
	leave_and_sleep(&left[0]);
	for (unsigned int i = 0; i < LEAVERS; i++)
		pthread_join(threads[i], NULL);
	sigaction(SIGSEGV, &usual, NULL);
	stress_stop(session, &stats);
	stress_check(stats.lost_by[RP_LOSS_DAMAGED] == LEAVERS && stats.delivered == 1,
		     "%" PRIu64 " delivered, %" PRIu64 " counted as damaged", stats.delivered,
		     stats.lost_by[RP_LOSS_DAMAGED]);
	pthread_barrier_destroy(&idle_end);
	munmap(unreadable, 8192);
	unlink(stress_path("leaving.nettrace"));
	stress_end();
}

int main(void)
{
	writers_that_leave_in_the_middle_are_reported();
#if !defined(__SANITIZE_THREAD__)
	for (enum form form = FORM_RUNS; form <= FORM_RECOVERABLE; form++) {
		locks_of_writers_that_left_serve_others(false, form);
		locks_of_writers_that_left_serve_others(true, form);
		locks_of_idle_threads_that_left_serve_others(form);
	}
	for (unsigned int i = 0; i < 4; i++)
		lock_that_was_left_is_free_after_a_few_passes(i & 1, i & 2);
	for (enum place place = FURTHER_IN; place <= ABOVE; place++)
		writer_keeps_its_lock_while_a_handler_sleeps(place);
#endif
#if defined(__x86_64__)
	writers_may_leave(leave_by_jumps, "siglongjmp", 0);
	later_sessions_do_not_suffer();
#endif
	writers_may_leave(cancel_in_the_middle, "cancellation", 8192);
	later_sessions_do_not_suffer();
	return stress_exit();
}
