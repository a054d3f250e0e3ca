/* SPDX-License-Identifier: MIT */
/*
 * Threads that leave a write by siglongjmp, or end during it, while they hold the lock of a
 * fallback ring, and handlers that interrupt such a write for long. The drain thread releases the
 * lock, or adds another one, so that other threads can write. No event of a write that returns is
 * lost.
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
#include <sys/resource.h>
#include <unistd.h>

#include "stress.h"

#define PROVIDER "Stress-Releasing"
#define LEAVERS 40u		/* more than the fallback has locks */

RP_PROVIDER(stress, PROVIDER);
RP_EVENT(stress, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(stream), RP_U64(serial),
	 RP_BLOB(filling));

static __thread sigjmp_buf way_out;

/* A page that the copy cannot read: the fault's handler abandons the write. */
static uint8_t *unreadable;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(way_out, 1);
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

	snprintf(output, sizeof(output), "%s", stress_path("releasing.nettrace"));
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
	unlink(stress_path("releasing.nettrace"));
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
	unlink(stress_path("releasing.nettrace"));
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
	const char *path = stress_path("releasing.nettrace");
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

#define FAR_BYTES (128u << 10)

static pthread_barrier_t idle_end;

/* Leaves the write so far in that no frame in use can refer to its surroundings. */
static __attribute__((noinline)) void leave_far_in(void *data, size_t bytes)
{
	volatile uint8_t *gap = __builtin_alloca(bytes);

	gap[0] = 0;
	leave_once(data);
	(void)gap[0];
}

static void *leave_and_sleep(void *data)
{
	leave_far_in(data, FAR_BYTES);
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
	unlink(stress_path("releasing.nettrace"));
	stress_end();
}

/* More than the locks and the locks of a second round. */
#define COMPUTING 64u

static bool may_end, handlers_compute;
static uint64_t handlers;

/* Waits in user mode only, where the kernel reports no stack pointer. */
static void compute(void)
{
	while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
		;
}

/* Leaves the processors to the drain thread and to the main thread. */
static void lower_priority(void)
{
	setpriority(PRIO_PROCESS, 0, 19);
}

static void *leave_and_compute(void *data)
{
	lower_priority();
	leave_once(data);
	compute();
	return NULL;
}

static void begin_leaving(void (*on_signal)(int), struct sigaction *ret_usual)
{
	struct sigaction action = { .sa_handler = on_signal };

	may_end = false;
	unreadable = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stress_check(unreadable != MAP_FAILED && sigaction(SIGSEGV, &action, ret_usual) == 0,
		     "mmap");
}

static void end_leaving(const struct sigaction *usual)
{
	sigaction(SIGSEGV, usual, NULL);
	munmap(unreadable, 8192);
	unlink(stress_path("releasing.nettrace"));
	stress_end();
}

/* No thread of these makes a call after it left, so each mark remains. */
static void locks_of_computing_threads_that_left_serve_others(enum form form)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	static uint64_t left[COMPUTING];
	pthread_t threads[COMPUTING];
	static uint8_t large[8192];
	struct rp_session *session;
	struct sigaction usual;

	stress_begin("locks_of_computing_threads_that_left_serve_others_while_the_session_%s",
		     form_names[form]);
	leave_by_exit = false;
	begin_leaving(on_fault, &usual);
	session = start_form(form);
	for (unsigned int i = 0; i < COMPUTING; i++)
		stress_spawn(&threads[i], leave_and_compute, &left[i]);
	while (stats.lost_by[RP_LOSS_DAMAGED] < COMPUTING) {
		stress_check(rp_session_get_stats(session, &stats) == 0, "no stats");
		sched_yield();
	}
	stress_check(stress_mark(0, 0, large, sizeof(large)) == 0, "no lock is free");
	stress_stop(session, &stats);
	stress_check(stats.lost_by[RP_LOSS_DAMAGED] == COMPUTING && stats.delivered == 1,
		     "%" PRIu64 " delivered, %" PRIu64 " counted as damaged", stats.delivered,
		     stats.lost_by[RP_LOSS_DAMAGED]);
	__atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < COMPUTING; i++)
		pthread_join(threads[i], NULL);
	end_leaving(&usual);
}

/* More than the part of a stack that the drain thread searches. */
#define DEEP_BYTES (9u << 20)

static void *leave_deep_and_sleep(void *data)
{
	leave_far_in(data, DEEP_BYTES);
	pthread_barrier_wait(&idle_end);
	return NULL;
}

/* A frame in use refers to the surroundings of the write, as if a handler had to return there. */
static void *leave_near_and_sleep(void *data)
{
	uint8_t *volatile inside = (uint8_t *)__builtin_frame_address(0) - STACK_BYTES / 2 - 16384;

	leave_far_in(data, FAR_BYTES);
	pthread_barrier_wait(&idle_end);
	(void)inside;
	return NULL;
}

static void locks_of_threads_that_may_return_serve_others(void *(*run)(void *), const char *how)
{
	static uint64_t left[LEAVERS];
	struct rp_session_stats stats;
	pthread_t threads[LEAVERS];
	static uint8_t large[8192];
	struct rp_session *session;
	pthread_attr_t attributes;
	struct sigaction usual;

	stress_begin("locks_of_threads_that_left_%s_and_sleep_serve_others", how);
	leave_by_exit = false;
	begin_leaving(on_fault, &usual);
	stress_check(pthread_barrier_init(&idle_end, NULL, LEAVERS + 1) == 0 &&
		     pthread_attr_init(&attributes) == 0 &&
		     pthread_attr_setstacksize(&attributes, DEEP_BYTES + (1u << 20)) == 0,
		     "attributes");
	session = start_form(FORM_RUNS);
	memset(left, 0, sizeof(left));
	for (unsigned int i = 0; i < LEAVERS; i++)
		stress_check(pthread_create(&threads[i], &attributes, run, &left[i]) == 0,
			     "thread");
	for (unsigned int i = 0; i < LEAVERS; i++) {
		while (__atomic_load_n(&left[i], __ATOMIC_RELAXED) == 0)
			sched_yield();
	}
	while (stress_mark(0, 0, large, sizeof(large)) != 0)
		sched_yield();
	pthread_barrier_wait(&idle_end);
	for (unsigned int i = 0; i < LEAVERS; i++)
		pthread_join(threads[i], NULL);
	stress_stop(session, &stats);
	stress_check(stats.lost_by[RP_LOSS_DAMAGED] == LEAVERS && stats.delivered == 1,
		     "%" PRIu64 " delivered, %" PRIu64 " counted as damaged", stats.delivered,
		     stats.lost_by[RP_LOSS_DAMAGED]);
	pthread_attr_destroy(&attributes);
	pthread_barrier_destroy(&idle_end);
	end_leaving(&usual);
}

static void on_fault_wait(int signal)
{
	(void)signal;
	__atomic_add_fetch(&handlers, 1, __ATOMIC_RELAXED);
	if (handlers_compute)
		compute();
	while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
		usleep(1000);
	mprotect(unreadable, 8192, PROT_READ);
}

static void *write_one(void *unused)
{
	(void)unused;
	lower_priority();
	while (stress_mark(0, 0, unreadable, 8192) != 0)
		sched_yield();
	return NULL;
}

/* Each writer returns into its write, long after other writers got other locks. */
static void writers_whose_handlers_run_long_lose_nothing(enum form form, bool compute)
{
	struct rp_session_stats stats;
	pthread_t threads[LEAVERS];
	static uint8_t large[8192];
	struct rp_session *session;
	struct sigaction usual;

	stress_begin("writers_whose_handlers_%s_hinder_no_others_and_lose_nothing_while_it_%s",
		     compute ? "compute" : "sleep", form_names[form]);
	begin_leaving(on_fault_wait, &usual);
	handlers = 0;
	handlers_compute = compute;
	session = start_form(form);
	for (unsigned int i = 0; i < LEAVERS; i++)
		stress_spawn(&threads[i], write_one, NULL);
	while (__atomic_load_n(&handlers, __ATOMIC_RELAXED) < LEAVERS)
		sched_yield();
	for (unsigned int i = 0; i < LEAVERS; i++) {
		while (stress_mark(0, 0, large, sizeof(large)) != 0)
			sched_yield();
	}
	__atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < LEAVERS; i++)
		pthread_join(threads[i], NULL);
	stress_stop(session, &stats);
	stress_check(stats.lost == stats.lost_by[RP_LOSS_BUSY] &&
		     stats.delivered == 2 * LEAVERS, "%" PRIu64 " delivered, %" PRIu64
		     " lost, %" PRIu64 " of them as all locks were held", stats.delivered,
		     stats.lost, stats.lost_by[RP_LOSS_BUSY]);
	end_leaving(&usual);
}

int main(void)
{
#if defined(__SANITIZE_THREAD__)
	stress_begin("locks_of_writers_that_left_serve_others");
	stress_skip("ThreadSanitizer is left with locks and signals of its own");
#else
	for (enum form form = FORM_RUNS; form <= FORM_RECOVERABLE; form++) {
		locks_of_writers_that_left_serve_others(false, form);
		locks_of_writers_that_left_serve_others(true, form);
		locks_of_idle_threads_that_left_serve_others(form);
	}
	for (unsigned int i = 0; i < 4; i++)
		lock_that_was_left_is_free_after_a_few_passes(i & 1, i & 2);
	for (enum place place = FURTHER_IN; place <= ABOVE; place++)
		writer_keeps_its_lock_while_a_handler_sleeps(place);
	for (enum form form = FORM_RUNS; form <= FORM_RECOVERABLE; form++) {
		if (form == FORM_OVERWRITES)	/* its rings are fixed */
			continue;
		locks_of_computing_threads_that_left_serve_others(form);
		writers_whose_handlers_run_long_lose_nothing(form, false);
		writers_whose_handlers_run_long_lose_nothing(form, true);
	}
	locks_of_threads_that_may_return_serve_others(leave_deep_and_sleep, "deep_in_a_stack");
	locks_of_threads_that_may_return_serve_others(leave_near_and_sleep, "close_by");
#endif
	return stress_exit();
}
