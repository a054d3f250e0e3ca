/* SPDX-License-Identifier: MIT */
/* The sampler: running threads are sampled where they run, sleeping threads are not disturbed. */
#include "core_support.h"
#include "sample_support.h"

#include <pthread.h>
#include <grp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample/sample.h"

#define EXTERNAL 1
#define MANAGED 2

TestSuite(sample_threads, .timeout = 120, .init = need_timers);

static atomic_uint go_on;
static atomic_uint steps;

/* Each function is in its own section of the program, so that an address identifies it. */
#define PLACE(name) __attribute__((noinline, section("text_" #name)))
extern const char __start_text_burn[], __stop_text_burn[];
extern const char __start_text_caller[], __stop_text_caller[];

static PLACE(burn) void burn(void)
{
	while (atomic_load(&go_on))
		atomic_fetch_add(&steps, 1);
}

static PLACE(caller) void call_burn(void)
{
	burn();
	__asm__ volatile("");	/* no tail call */
}

/* Threads put their kernel ids here. */
static atomic_uint burner;

static void *burn_in_thread(void *data)
{
	atomic_store(&burner, (unsigned int)gettid());
	call_burn();
	/* Sleeps until the other end of the pipe is closed. */
	if (data)
		(void)read(*(int *)data, &burner, 1);
	return NULL;
}

static bool is_between(uint64_t address, const char *start, const char *stop)
{
	return address >= (uint64_t)(uintptr_t)start && address < (uint64_t)(uintptr_t)stop;
}

static int type_of(const struct rp_listener_event *event)
{
	int32_t type;

	cr_assert_eq(event->payload_bytes, sizeof(type));
	memcpy(&type, event->payload, sizeof(type));
	return type;
}

/* Waits for the next sample of this type of the thread. */
static void expect_sample(struct rp_listener *listener, uint32_t thread, int type,
			  struct rp_listener_event *ret_event)
{
	do {
		expect_event(listener, ret_event);
	} while (ret_event->id != 0 || ret_event->thread != thread || type_of(ret_event) != type);
}

static void start_burning(pthread_t *ret_thread, int *fd)
{
	atomic_store(&go_on, 1);
	atomic_store(&burner, 0);
	cr_assert_eq(pthread_create(ret_thread, NULL, burn_in_thread, fd), 0);
	wait_until(atomic_load(&burner) != 0);
}

static void stop_burning(pthread_t thread)
{
	atomic_store(&go_on, 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

Test(sample_threads, running_thread_is_sampled_with_its_calls)
{
	struct rp_listener *listener = listen_to(RP_SAMPLE_PROVIDER);
	struct rp_listener_event event;
	pthread_t thread;

	start_burning(&thread, NULL);
	expect_sample(listener, atomic_load(&burner), MANAGED, &event);
	stop_burning(thread);
#ifndef __SANITIZE_THREAD__	/* delivers a signal late, when the thread is elsewhere */
	cr_assert_geq(event.frame_count, 3u);
	cr_expect(is_between(event.frames[0], __start_text_burn, __stop_text_burn));
	cr_expect(is_between(event.frames[1], __start_text_caller, __stop_text_caller));
#endif
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

/* /proc/PID/status lists the groups before the signals: more text than a buffer has. */
Test(sample_threads, process_in_many_groups_is_sampled)
{
	struct rp_listener *listener;
	struct rp_listener_event event;
	pthread_t thread;
	gid_t groups[2000];

	for (gid_t i = 0; i < 2000; i++)
		groups[i] = 1000000 + i;
	if (setgroups(2000, groups) != 0)
		cr_skip_test("only root may join groups");
	listener = listen_to(RP_SAMPLE_PROVIDER);
	start_burning(&thread, NULL);
	expect_sample(listener, atomic_load(&burner), MANAGED, &event);
	stop_burning(thread);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

Test(sample_threads, thread_that_was_there_before_the_session_is_sampled)
{
	struct rp_listener *listener;
	struct rp_listener_event event;
	pthread_t thread;

	start_burning(&thread, NULL);
	listener = listen_to(RP_SAMPLE_PROVIDER);
	expect_sample(listener, atomic_load(&burner), MANAGED, &event);
	stop_burning(thread);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

Test(sample_threads, sample_ends_when_its_thread_falls_asleep)
{
	struct rp_listener *listener = listen_to(RP_SAMPLE_PROVIDER);
	struct rp_listener_event event;
	uint32_t id;
	pthread_t thread;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	start_burning(&thread, &fds[0]);
	id = atomic_load(&burner);
	expect_sample(listener, id, MANAGED, &event);
	atomic_store(&go_on, 0);
	do {
		expect_sample(listener, id, EXTERNAL, &event);
	} while (event.frame_count != 0);
	close(fds[1]);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

Test(sample_threads, name_of_each_thread_is_reported_and_so_is_a_new_one)
{
	struct rp_listener *listener = listen_to(RP_SAMPLE_PROVIDER);
	const char *const names[] = { "first", "second" };
	struct rp_listener_event event;
	pthread_t thread;

	start_burning(&thread, NULL);
	for (int i = 0; i < 2; i++) {
		uint32_t id;

		cr_assert_eq(pthread_setname_np(thread, names[i]), 0);
		do {
			expect_event(listener, &event);
			memcpy(&id, event.payload, sizeof(id));
		} while (event.id != 1 || id != atomic_load(&burner) ||
			 strcmp((const char *)event.payload + sizeof(id), names[i]) != 0);
	}
	stop_burning(thread);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

/* Calls that the kernel never restarts, whatever SA_RESTART says. */
static void *sleep_a_little(void *data)
{
	struct timespec moment = { 0, 200000 };
	struct epoll_event event;
	unsigned int *cut = data;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	cr_assert_geq(epoll, 0);
	atomic_store(&burner, (unsigned int)gettid());
	while (atomic_load(&go_on)) {
		for (int i = 0; i < 200000; i++)
			atomic_fetch_add(&steps, 1);
		*cut += nanosleep(&moment, NULL) != 0;
		*cut += epoll_wait(epoll, &event, 1, 1) < 0;
		*cut += poll(NULL, 0, 1) < 0;
	}
	close(epoll);
	return NULL;
}

Test(sample_threads, no_system_call_is_cut_short)
{
	struct rp_listener *listener = listen_to(RP_SAMPLE_PROVIDER);
	struct rp_listener_event event;
	unsigned int cut = 0;
	pthread_t thread;

	atomic_store(&go_on, 1);
	cr_assert_eq(pthread_create(&thread, NULL, sleep_a_little, &cut), 0);
	wait_until(atomic_load(&burner) != 0);
	for (int i = 0; i < 20; i++)
		expect_sample(listener, atomic_load(&burner), MANAGED, &event);
	stop_burning(thread);
	cr_expect_eq(cut, 0u, "%u calls ended early", cut);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

/* Whether the thread has set its id and the kernel reports it as asleep. */
static bool is_asleep(const atomic_uint *id)
{
	char path[64], state = '?';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%u/stat", atomic_load(id));
	file = fopen(path, "re");
	if (file) {
		(void)!fscanf(file, "%*d %*s %c", &state);
		fclose(file);
	}
	return state == 'S';
}

/* Ways to sleep: the libc calls in which a server's threads block. */
enum way {
	IN_NANOSLEEP,
	IN_EPOLL,
	IN_CONDITION,
	IN_READ,
	WAYS,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t end_of_sleep = PTHREAD_COND_INITIALIZER;
static int never[2];
static atomic_uint sleepers[WAYS];

static PLACE(burn) void sleep_in(enum way way)
{
	struct timespec moment = { 0, 100000000 };
	struct epoll_event event;
	int epoll = -1;
	char byte;

	if (way == IN_EPOLL)
		epoll = epoll_create1(EPOLL_CLOEXEC);
	pthread_mutex_lock(&lock);
	while (atomic_load(&go_on)) {
		if (way == IN_CONDITION) {
			pthread_cond_wait(&end_of_sleep, &lock);
			continue;
		}
		pthread_mutex_unlock(&lock);
		if (way == IN_NANOSLEEP)
			nanosleep(&moment, NULL);
		else if (way == IN_EPOLL)
			(void)epoll_wait(epoll, &event, 1, 100);
		else
			(void)read(never[0], &byte, 1);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	close(epoll);
}

static PLACE(caller) void call_sleep(enum way way)
{
	sleep_in(way);
	__asm__ volatile("");
}

static void *sleep_in_thread(void *data)
{
	enum way way = (enum way)(uintptr_t)data;

	atomic_store(&sleepers[way], (unsigned int)gettid());
	call_sleep(way);
	return NULL;
}

/* Whether the stack contains these two functions, one directly above the other. */
static bool has_calls(const struct rp_listener_event *event)
{
	for (uint32_t i = 0; i + 1 < event->frame_count; i++) {
		if (is_between(event->frames[i], __start_text_burn, __stop_text_burn))
			return is_between(event->frames[i + 1], __start_text_caller,
					  __stop_text_caller);
	}
	return false;
}

/*
 * Whether the sampler may guess here: a sanitizer's read() keeps a frame pointer, jumps to another
 * of its functions, and leaves much of its stack unwritten, so a search there may find old frames.
 */
static bool is_guess(unsigned int way)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return way == IN_READ;
#else
	(void)way;
	return false;
#endif
}

/* Two samples of each, since clients do not show a sample without a next one. */
Test(sample_threads, session_begins_with_the_stacks_of_sleeping_threads)
{
	struct rp_listener_event event;
	struct rp_listener *listener;
	pthread_t threads[WAYS];
	unsigned int stacks = 0, ends = 0;

	atomic_store(&go_on, 1);
	cr_assert_eq(pipe(never), 0);
	for (unsigned int way = 0; way < WAYS; way++) {
		cr_assert_eq(pthread_create(&threads[way], NULL, sleep_in_thread,
					    (void *)(uintptr_t)way), 0);
		wait_until(is_asleep(&sleepers[way]));
	}
	listener = listen_to(RP_SAMPLE_PROVIDER);
	while (ends != (1u << WAYS) - 1) {
		expect_event(listener, &event);
		for (unsigned int way = 0; way < WAYS; way++) {
			if (event.id != 0 || event.thread != atomic_load(&sleepers[way]))
				continue;
			if (stacks & 1u << way) {
				ends |= 1u << way;
				continue;
			}
			cr_expect_eq(type_of(&event), EXTERNAL);
			cr_expect(is_guess(way) || has_calls(&event),
				  "way %u: %u frames", way, event.frame_count);
			stacks |= 1u << way;
		}
	}
	atomic_store(&go_on, 0);
	close(never[1]);
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&end_of_sleep);
	pthread_mutex_unlock(&lock);
	for (unsigned int way = 0; way < WAYS; way++)
		cr_assert_eq(pthread_join(threads[way], NULL), 0);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

Test(sample_threads, all_sessions_use_one_signal)
{
	unsigned int before = count_handlers();

	for (int i = 0; i < 3; i++) {
		struct rp_listener *listener = listen_to(RP_SAMPLE_PROVIDER);
		struct rp_listener_event event;
		pthread_t thread;

		start_burning(&thread, NULL);
		expect_sample(listener, atomic_load(&burner), MANAGED, &event);
		stop_burning(thread);
		cr_assert_eq(rp_listener_stop(listener, NULL), 0);
		cr_expect_eq(count_handlers(), before + 1);
	}
}

static atomic_uint notes;

static void note_signal(int number)
{
	(void)number;
	atomic_fetch_add(&notes, 1);
}

Test(sample_threads, signal_of_the_program_is_left_alone)
{
	struct sigaction action = { .sa_handler = note_signal };
	struct rp_listener *listener;
	unsigned int before;

	cr_assert_eq(sigaction(SIGRTMAX, &action, NULL), 0);
	before = count_handlers();
	listener = listen_to(RP_SAMPLE_PROVIDER);
	wait_until(count_handlers() == before + 1);
	cr_assert_eq(sigaction(SIGRTMAX, NULL, &action), 0);
	cr_expect_eq(action.sa_handler, note_signal);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

Test(sample_threads, signal_that_the_program_uses_after_a_session_is_left_alone)
{
	const struct sigaction action = { .sa_handler = note_signal };
	struct rp_listener *listener = listen_to(RP_SAMPLE_PROVIDER);
	struct rp_listener_event event;
	unsigned int before;
	pthread_t thread;
	struct sigaction now;

	start_burning(&thread, NULL);
	expect_sample(listener, atomic_load(&burner), MANAGED, &event);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	before = count_handlers();
	cr_assert_eq(sigaction(SIGRTMAX, &action, &now), 0);
	cr_assert(now.sa_flags & SA_SIGINFO);
	listener = listen_to(RP_SAMPLE_PROVIDER);
	expect_sample(listener, atomic_load(&burner), MANAGED, &event);
	stop_burning(thread);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	cr_expect_eq(count_handlers(), before + 1);
	cr_assert_eq(sigaction(SIGRTMAX, NULL, &now), 0);
	cr_expect_eq(now.sa_handler, note_signal);
	cr_expect_eq(atomic_load(&notes), 0);
}

/* Returns its argument if a real-time signal is pending at the end. */
static void *burn_deaf(void *data)
{
	sigset_t set;
	bool is_pending = false;

	sigfillset(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	(void)burn_in_thread(NULL);
	sigpending(&set);
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
		is_pending |= sigismember(&set, number) == 1;
	return is_pending ? data : NULL;
}

Test(sample_threads, thread_that_blocks_signals_does_not_keep_ours_pending)
{
	struct rp_listener *listener;
	struct rp_listener_event event;
	pthread_t deaf, thread;
	void *pending;

	atomic_store(&go_on, 1);
	cr_assert_eq(pthread_create(&deaf, NULL, burn_deaf, &notes), 0);
	wait_until(atomic_load(&burner) != 0);
	listener = listen_to(RP_SAMPLE_PROVIDER);
	start_burning(&thread, NULL);
	expect_sample(listener, atomic_load(&burner), MANAGED, &event);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	stop_burning(thread);
	cr_assert_eq(pthread_join(deaf, &pending), 0);
	cr_expect_eq(pending, NULL);
}

Test(sample_threads, star_does_not_mean_samples)
{
	struct rp_listener *all = listen_to("*");
	struct rp_listener *listener = listen_to(RP_SAMPLE_PROVIDER);
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	pthread_t thread;

	start_burning(&thread, NULL);
	expect_sample(listener, atomic_load(&burner), MANAGED, &event);
	stop_burning(thread);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	cr_assert_eq(rp_listener_drain(all), 0);
	while (rp_listener_next(all, &event, PATIENCE_MS) == 1)
		cr_expect_str_neq(event.provider, RP_SAMPLE_PROVIDER);
	cr_assert_eq(rp_listener_stop(all, NULL), 0);
}

/* The child has the handler, but no timer. A new session samples. */
static int run_child(struct rp_listener *inherited, unsigned int before)
{
	struct rp_listener_event event;
	struct rp_listener *listener;
	pthread_t thread;

	if (count_handlers() != before + 1 || rp_listener_stop(inherited, NULL) != 0)
		return 1;
	listener = listen_to(RP_SAMPLE_PROVIDER);
	start_burning(&thread, NULL);
	expect_sample(listener, atomic_load(&burner), MANAGED, &event);
	stop_burning(thread);
	return rp_listener_stop(listener, NULL) == 0 ? 0 : 2;
}

Test(sample_threads, forked_child_is_not_sampled_until_it_asks)
{
	unsigned int before = count_handlers();
	struct rp_listener *listener = listen_to(RP_SAMPLE_PROVIDER);
	int status = -1;
	pid_t child;

#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("the sampler may hold the lock of the sanitizer's allocator at fork(2)");
#endif
	wait_until(count_handlers() == before + 1);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0)
		_exit(run_child(listener, before));
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

/* The interval is at the end of the Trace object, whose header has a fixed size. */
#define INTERVAL_AT (8 + 4 + 20 + 3 + 8 + 4 + 5 + 1 + 44)

static uint32_t reported_interval(const char *list)
{
	struct rp_session *session;
	uint8_t bytes[INTERVAL_AT + 4];
	uint32_t interval;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	session = stream_to(fds[1], list);
	for (size_t got = 0; got < sizeof(bytes);) {
		ssize_t count = read(fds[0], bytes + got, sizeof(bytes) - got);

		cr_assert_gt(count, 0);
		got += (size_t)count;
	}
	close(fds[0]);
	(void)rp_session_stop(session, NULL);
	memcpy(&interval, bytes + INTERVAL_AT, sizeof(interval));
	return interval;
}

Test(sample_threads, stream_reports_the_interval)
{
	cr_expect_eq(reported_interval(RP_SAMPLE_PROVIDER ":0:4:SampleProfilerIntervalMS=50"),
		     50000000u);
	cr_expect_eq(reported_interval("Other," RP_SAMPLE_PROVIDER), rp_sample_interval_ns(NULL));
	cr_expect_eq(reported_interval("Other"), 1000000u);
}

Test(sample_threads, interval_is_what_was_asked_for_or_the_kernels_own)
{
	uint32_t tick = rp_sample_interval_ns(NULL);

	cr_expect_geq(tick, 1000000u);
	cr_expect_leq(tick, 10000000u);
	cr_expect_eq(rp_sample_interval_ns("SampleProfilerIntervalMS=50"), 50000000u);
	cr_expect_eq(rp_sample_interval_ns("a=b;SampleProfilerIntervalMS=20;c"), 20000000u);
	cr_expect_eq(rp_sample_interval_ns("SampleProfilerIntervalMS=0"), tick);
	cr_expect_eq(rp_sample_interval_ns("SampleProfilerIntervalMS=soon"), tick);
	cr_expect_eq(rp_sample_interval_ns("SampleProfilerIntervalMS=-1"), 4000000000u);
}
