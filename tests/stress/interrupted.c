/* SPDX-License-Identifier: MIT */
/*
 * Writers that are interrupted at critical moments: by signals whose handlers write too, two deep
 * and on an alternate stack, and by moves between processors. The counts must stay exact after
 * every restart of a section and every lock held by the interrupted thread itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress.h"

#define PROVIDER "Stress-Interrupted"
#define WRITERS 4u
#define KINDS 3u		/* streams of a thread: its own, SIGUSR1's, SIGUSR2's */
#define MOVES 100u

RP_PROVIDER(stress, PROVIDER);
STRESS_EVENTS(stress);

struct writer {
	pthread_t thread;
	struct scene *scene;
	pid_t tid;			/* set once it runs */
	struct stress_stream *streams;	/* KINDS of them */
	uint64_t count;
	bool alternate;			/* SIGUSR2 uses an alternate stack */
	bool without_rseq;
	bool ended;
};

struct scene {
	struct stress_books books;
	struct writer writers[WRITERS];
	uint64_t signals, moves;
	bool has_signals, has_moves;
};

static __thread struct writer *self __attribute__((tls_model("initial-exec")));

static void write_from_handler(unsigned int kind)
{
	struct stress_stream *stream = self ? &self->streams[kind] : NULL;
	int saved = errno;

	/*
	 * Drop events beyond the capacity. Each handler masks its own signal, so it runs alone
	 * here.
	 */
	if (stream && stream->next < stream->space)
		stress_write(stream);
	errno = saved;
}

/* A second signal may interrupt this handler, raised here or by another thread. */
static void on_usr1(int signal)
{
	(void)signal;
	write_from_handler(1);
	if (self && self->streams[1].next % 4 == 0)
		raise(SIGUSR2);
	write_from_handler(1);
}

static void on_usr2(int signal)
{
	(void)signal;
	write_from_handler(2);
	write_from_handler(2);
}

static void set_handlers(bool on)
{
	struct sigaction action = { .sa_handler = on ? on_usr1 : SIG_IGN, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &action, NULL);
	action.sa_handler = on ? on_usr2 : SIG_IGN;
	action.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR2, &action, NULL);
}

/*
 * Whether the writer has been disturbed at least once, since a loaded machine may run the other
 * threads late. A sanitizer may delay a signal until the writer continues.
 */
static bool is_disturbed(const struct writer *writer)
{
	const struct scene *scene = writer->scene;
	bool handled = STRESS_WATCHED ||
		       (__atomic_load_n(&writer->streams[1].next, __ATOMIC_RELAXED) &&
			__atomic_load_n(&writer->streams[2].next, __ATOMIC_RELAXED));

	return (handled || !scene->has_signals) &&
	       (__atomic_load_n(&scene->moves, __ATOMIC_RELAXED) > MOVES || !scene->has_moves);
}

static void *write_all(void *data)
{
	struct writer *writer = data;
	stack_t stack = { .ss_size = 256 << 10 }, none = { .ss_flags = SS_DISABLE };

	if (writer->without_rseq)
		stress_leave_rseq();
	if (writer->alternate) {
		stack.ss_sp = stress_alloc(1, stack.ss_size);
		sigaltstack(&stack, NULL);
	}
	self = writer;
	__atomic_store_n(&writer->tid, gettid(), __ATOMIC_RELEASE);
	for (uint64_t i = 0; i < writer->count; i++) {
		stress_write(&writer->streams[0]);
		if (i % 512 == 511)
			sched_yield();
		while (i == writer->count / 2 && !is_disturbed(writer))
			sched_yield();
	}
	__atomic_store_n(&writer->ended, true, __ATOMIC_RELEASE);
	self = NULL;
	if (writer->alternate) {
		sigaltstack(&none, NULL);
		free(stack.ss_sp);
	}
	return NULL;
}

static bool anyone_writes(const struct scene *scene)
{
	for (size_t i = 0; i < WRITERS; i++) {
		if (!__atomic_load_n(&scene->writers[i].ended, __ATOMIC_ACQUIRE))
			return true;
	}
	return false;
}

/* Sends a signal after each random number of microseconds, to one writer after another. */
static void *send_signals(void *data)
{
	struct scene *scene = data;
	uint64_t random = 5;

	while (anyone_writes(scene)) {
		struct writer *writer = &scene->writers[scene->signals % WRITERS];
		uint32_t spins = stress_random(&random) % 4000;

		while (spins--)
			__asm__ volatile("" ::: "memory");
		/* The threads are joined after this one ends, so the handle is valid. */
		pthread_kill(writer->thread, stress_random(&random) % 2 ? SIGUSR1 : SIGUSR2);
		scene->signals++;
		if (scene->signals % 256 == 0)
			sched_yield();
	}
	return NULL;
}

/* Moves the threads between processors as often as the kernel permits. */
static void *move_about(void *data)
{
	struct scene *scene = data;
	int processors[CPU_SETSIZE], count = 0;
	cpu_set_t allowed, one;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &allowed))
			processors[count++] = i;
	}
	while (anyone_writes(scene)) {
		struct writer *writer = &scene->writers[scene->moves % WRITERS];
		pid_t tid = __atomic_load_n(&writer->tid, __ATOMIC_ACQUIRE);

		CPU_ZERO(&one);
		CPU_SET(processors[scene->moves / WRITERS % (unsigned int)count], &one);
		if (tid && !__atomic_load_n(&writer->ended, __ATOMIC_ACQUIRE))
			(void)sched_setaffinity(tid, sizeof(one), &one);
		__atomic_store_n(&scene->moves, scene->moves + 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Every other writer writes payloads for the fallback, so one session has both kinds. */
static void init_scene(struct scene *scene, uint64_t count, uint32_t large_bytes)
{
	stress_books_init(&scene->books, WRITERS * KINDS, count, stress_any);
	for (size_t i = 0; i < WRITERS; i++) {
		struct writer *writer = &scene->writers[i];

		writer->scene = scene;
		writer->streams = &scene->books.streams[i * KINDS];
		writer->count = count;
		writer->alternate = i % 2;
		if (i % 2 && large_bytes) {
			writer->streams[0].least_bytes = large_bytes;
			writer->count = count / 16;
		}
	}
}

static void run_scene(struct scene *scene, size_t megabytes, bool signals, bool moves)
{
	const char *path = stress_path("interrupted.nettrace");
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	struct rp_session *session;
	pthread_t sender, mover;

	scene->has_signals = signals;
	scene->has_moves = moves;
	session = stress_start(PROVIDER, path, -1, megabytes << 20, 0);
	for (size_t i = 0; i < WRITERS; i++)
		stress_spawn(&scene->writers[i].thread, write_all, &scene->writers[i]);
	if (signals)
		stress_spawn(&sender, send_signals, scene);
	if (moves)
		stress_spawn(&mover, move_about, scene);
	if (signals)
		pthread_join(sender, NULL);
	if (moves)
		pthread_join(mover, NULL);
	for (size_t i = 0; i < WRITERS; i++)
		pthread_join(scene->writers[i].thread, NULL);
	stress_stop(session, &stats);
	stress_read_file(path, &scene->books, &tally);
	stress_settle(&scene->books, &tally, &stats);
	stress_stats(&scene->books, &stats);
	unlink(path);
}

static void signals_leave_the_stats_exact(size_t megabytes)
{
	struct scene scene = { .signals = 0 };
	uint64_t handled = 0;

	stress_begin("serials_add_up_with_nested_signal_handlers_in_%zu_mb", megabytes);
	init_scene(&scene, stress_amount(1000000), 0);
	set_handlers(true);
	run_scene(&scene, megabytes, true, false);
	set_handlers(false);
	for (size_t i = 0; i < WRITERS; i++) {
		handled += scene.writers[i].streams[1].next;
		stress_check(scene.writers[i].streams[2].next > 0 || STRESS_WATCHED,
			     "no handler ran in writer %zu", i);
	}
	stress_check(handled > 0, "no handler ran");
	stress_note("%" PRIu64 " signals sent, %" PRIu64 " events from SIGUSR1's handler",
		    scene.signals, handled);
	stress_books_fini(&scene.books);
	stress_end();
}

static void migration_leaves_the_stats_exact(size_t megabytes)
{
	struct scene scene = { .signals = 0 };
	cpu_set_t allowed;

	stress_begin("serials_add_up_under_forced_migration_in_%zu_mb", megabytes);
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) {
		stress_skip("one processor only");
		return;
	}
	init_scene(&scene, stress_amount(1000000), 4097);
	run_scene(&scene, megabytes, false, true);
	stress_check(scene.moves > MOVES, "only %" PRIu64 " moves", scene.moves);
	stress_note("%" PRIu64 " moves", scene.moves);
	stress_books_fini(&scene.books);
	stress_end();
}

/*
 * Everything in one session: writers with and without rseq, small payloads and fallback payloads,
 * nested handlers that write, and threads moved between processors.
 */
static void everything_combined_leaves_the_stats_exact(size_t megabytes)
{
	struct scene scene = { .signals = 0 };
	uint64_t handled = 0;

	stress_begin("serials_add_up_with_signals_and_migration_and_both_kinds_of_writer_in_%zu_mb",
		     megabytes);
	init_scene(&scene, stress_amount(1000000), 0);
	for (size_t i = 0; i < WRITERS; i++)
		scene.writers[i].without_rseq = i >= WRITERS / 2;
	scene.writers[1].streams[0].least_bytes = 4097;
	scene.writers[1].count /= 16;
	set_handlers(true);
	run_scene(&scene, megabytes, true, true);
	set_handlers(false);
	for (size_t i = 0; i < WRITERS; i++)
		handled += scene.writers[i].streams[1].next + scene.writers[i].streams[2].next;
	stress_check(handled > 0 && scene.moves > 0, "%" PRIu64 " events of handlers, %" PRIu64
		     " moves", handled, scene.moves);
	stress_note("figure: %" PRIu64 " signals, %" PRIu64 " events from their handlers, %" PRIu64
		    " moves between processors: each serial accounted for", scene.signals, handled,
		    scene.moves);
	stress_books_fini(&scene.books);
	stress_end();
}

int main(void)
{
	for (unsigned int i = 0; i < stress_rounds(); i++) {
		signals_leave_the_stats_exact(64);
		signals_leave_the_stats_exact(1);
		migration_leaves_the_stats_exact(64);
		migration_leaves_the_stats_exact(1);
		everything_combined_leaves_the_stats_exact(64);
		everything_combined_leaves_the_stats_exact(1);
	}
	return stress_exit();
}
