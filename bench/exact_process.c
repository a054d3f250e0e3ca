/* SPDX-License-Identifier: MIT */
/* The process that exact.c observes: its sessions, its write(2), and its allocations by thread. */
#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <ringpipe/ringpipe.h>

#include "exact.h"
#include "instead.h"
#include "session.h"

#define BIG_RING (256u << 20)
#define RING (16u << 20)
#define MANY 8u

static struct rp_session *sessions[16 + MANY];
static unsigned int session_count;
static struct rp_listener *pull, *push;

/* The linker makes the library and libc call the following functions. */
static bool counting[EXACT_THREADS];
static unsigned int allocations[EXACT_THREADS];
static __thread bool is_writer __attribute__((tls_model("initial-exec")));

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *counted_malloc(size_t size) BENCH_INSTEAD_OF(malloc);
void *counted_calloc(size_t count, size_t size) BENCH_INSTEAD_OF(calloc);
void *counted_realloc(void *old, size_t size) BENCH_INSTEAD_OF(realloc);
void *counted_memalign(size_t alignment, size_t size) BENCH_INSTEAD_OF(memalign);
void *counted_aligned_alloc(size_t alignment, size_t size) BENCH_INSTEAD_OF(aligned_alloc);
int counted_posix_memalign(void **ret_memory, size_t alignment, size_t size)
	BENCH_INSTEAD_OF(posix_memalign);
void *counted_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
	BENCH_INSTEAD_OF(mmap64);
ssize_t held_write(int fd, const void *bytes, size_t size) BENCH_INSTEAD_OF(write);

void exact_count_allocations(enum exact_thread thread, bool counts)
{
	is_writer |= thread == EXACT_WRITER;
	__atomic_store_n(&counting[thread], counts, __ATOMIC_RELAXED);
}

unsigned int exact_allocations(enum exact_thread thread)
{
	return __atomic_load_n(&allocations[thread], __ATOMIC_RELAXED);
}

static void allocates(void)
{
	enum exact_thread thread = is_writer ? EXACT_WRITER : EXACT_OTHERS;

	if (__atomic_load_n(&counting[thread], __ATOMIC_RELAXED))
		__atomic_fetch_add(&allocations[thread], 1, __ATOMIC_RELAXED);
}

void *counted_malloc(size_t size)
{
	allocates();
	return __libc_malloc(size);
}

void *counted_calloc(size_t count, size_t size)
{
	allocates();
	return __libc_calloc(count, size);
}

void *counted_realloc(void *old, size_t size)
{
	allocates();
	return __libc_realloc(old, size);
}

void *counted_memalign(size_t alignment, size_t size)
{
	allocates();
	return __libc_memalign(alignment, size);
}

void *counted_aligned_alloc(size_t alignment, size_t size)
{
	return counted_memalign(alignment, size);
}

int counted_posix_memalign(void **ret_memory, size_t alignment, size_t size)
{
	*ret_memory = counted_memalign(alignment, size);
	return *ret_memory ? 0 : ENOMEM;
}

void *counted_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	allocates();
	return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

/* 1: the next write(2) of another thread blocks; 2: it is blocked */
static uint32_t held;

static void change_held(uint32_t to)
{
	__atomic_store_n(&held, to, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &held, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void await_held(uint32_t other_than)
{
	while (__atomic_load_n(&held, __ATOMIC_SEQ_CST) == other_than)
		syscall(SYS_futex, &held, FUTEX_WAIT_PRIVATE, other_than, NULL, NULL, 0);
}

ssize_t held_write(int fd, const void *bytes, size_t size)
{
	if (!is_writer && __atomic_load_n(&held, __ATOMIC_SEQ_CST) == 1) {
		change_held(2);
		await_held(2);
	}
	return syscall(SYS_write, fd, bytes, size);
}

void exact_hold(void)
{
	change_held(1);
}

void exact_await_held(void)
{
	await_held(1);
}

void exact_let_go(void)
{
	change_held(0);
}

static void start(const char *provider, size_t bytes, uint32_t flags, uint32_t block_ms)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = provider, .level = RP_LEVEL_VERBOSE,
		.keywords = UINT64_MAX,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .flags = flags, .providers = &wanted,
		.provider_count = 1, .buffer_bytes = bytes, .output_fd = -1,
		.block_ms = block_ms,
		.output_path = flags & RP_SESSION_OVERWRITE ? NULL : "/dev/null",
	};

	if (rp_session_start(&options, &sessions[session_count++]) != 0)
		abort();
}

static void heard(const struct rp_listener_event *event, void *data)
{
	(void)event, (void)data;
}

static void listen_to(const char *provider, rp_listener_callback callback,
		      struct rp_listener **ret_listener)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = provider, .level = RP_LEVEL_VERBOSE,
		.keywords = UINT64_MAX,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.buffer_bytes = RING, .output_fd = -1,
	};

	if (rp_listener_start(&options, callback, NULL, ret_listener) != 0)
		abort();
}

/* An event requests the unwind rules for its stack, and the next pass finds them. */
static void *learn_stacks(void *data)
{
	struct rp_session *session = data;

	for (unsigned int i = 1; i <= 4; i++) {
		exact_write_stack();
		bench_settle(session, i);
	}
	return NULL;
}

static void *write_one(void *data)
{
	(void)data;
	exact_write_kind("", 1);
	return NULL;
}

/* A separate thread, since the writer's first event is measured. */
static void on_another_thread(void *(*run)(void *), void *data)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, data) != 0)
		abort();
	pthread_join(thread, NULL);
}

void exact_start(void)
{
	struct rp_session *with_stacks;

	exact_ways_init();
	start("Bench-Exact", BIG_RING, 0, 0);
	start("Bench-Flight", RING, RP_SESSION_OVERWRITE, 0);
	for (unsigned int i = 0; i < 2; i++)
		start("Bench-Both", RING, 0, 0);
	for (unsigned int i = 0; i < MANY; i++)
		start("Bench-Many", RING, 0, 0);
	start("Bench-Coarse", RING, RP_SESSION_COARSE, 0);
	start("Bench-Causal", RING, RP_SESSION_CAUSAL, 0);
	start("Bench-Blocking", RING, 0, 1000);
	start("Bench-Full", RP_SESSION_BUFFER_MIN, 0, 0);
	start("Bench-Stalled", RP_SESSION_BUFFER_MIN, 0, 1000);
	start("Bench-Stacked", RING, RP_SESSION_STACKS | RP_SESSION_NO_RUNDOWN, 0);
	with_stacks = sessions[session_count - 1];
	listen_to("Bench-Pulled", NULL, &pull);
	listen_to("Bench-Pushed", heard, &push);
	on_another_thread(learn_stacks, with_stacks);
	exact_settle(0);
	exact_hold();
	on_another_thread(write_one, NULL);
	exact_await_held();
}

void exact_stop(void)
{
	rp_listener_stop(push, NULL);
	rp_listener_stop(pull, NULL);
	while (session_count)
		rp_session_stop(sessions[--session_count], NULL);
}

void exact_settle(uint64_t written)
{
	bench_settle(sessions[0], written);
}

/* Lets the drain thread write `count` events to a file; calls `watch` before and after. */
void exact_pass(const char *path, unsigned int count, void (*watch)(void))
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;

	exact_hold();
	session = bench_start("Bench-Exact", path, BIG_RING, 0);
	exact_await_held();
	exact_write_kind("", count);
	watch();
	exact_let_go();
	bench_settle(session, count);
	watch();
	rp_session_stop(session, &stats);
	if (stats.delivered != count)
		abort();
}

int exact_write_file(const char *path, const char *kind, unsigned int count)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;

	bench_stay();
	exact_count_allocations(EXACT_WRITER, false);
	exact_hold();
	session = bench_start("Bench-Exact", path, BIG_RING, RP_SESSION_COARSE);
	exact_await_held();
	exact_write_kind(kind, count);
	exact_let_go();
	/*
	 * Otherwise the events of the session's end would fall into this pass or the next by
	 * chance.
	 */
	bench_settle(session, count);
	rp_session_stop(session, &stats);
	return stats.delivered == count ? 0 : 1;
}
