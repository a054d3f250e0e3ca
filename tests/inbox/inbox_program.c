/* SPDX-License-Identifier: MIT */
/*
 * A program that knows nothing of ringpipe. Each of its parts prints its own record of what it did,
 * one line for each fact, for the test to compare with the events of the in-box providers.
 *
 * usage: inbox_program PART
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
		exit(1); \
	} \
} while (0)

static long thread_id(void)
{
	return syscall(SYS_gettid);
}

/* Threads. */

enum thread_end { RETURNS, EXITS, IS_CANCELLED, END_COUNT };

static void *thread_work(void *data)
{
	const enum thread_end end = *(enum thread_end *)data;
	char name[16];

	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
	snprintf(name, sizeof(name), "worker-%d", (int)end);
	if (end == RETURNS)
		CHECK(prctl(PR_SET_NAME, name) == 0);
	else
		CHECK(pthread_setname_np(pthread_self(), name) == 0);
	printf("thread %ld %p %s\n", thread_id(), (void *)(uintptr_t)thread_work, name);
	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
	if (end == EXITS)
		pthread_exit(data);
	while (end == IS_CANCELLED)
		pause();
	return data;
}

static int c11_work(void *data)
{
	CHECK(pthread_setname_np(pthread_self(), "c11") == 0);
	printf("thread %ld %p c11\n", thread_id(), (void *)(uintptr_t)c11_work);
	if (*(const bool *)data)
		thrd_exit(-7);
	return -7;
}

static void c11_threads(void)
{
	for (int i = 0; i < 10; i++) {
		bool exits = i % 2;
		thrd_t thread;
		int result;

		CHECK(thrd_create(&thread, c11_work, &exits) == thrd_success);
		CHECK(thrd_join(thread, &result) == thrd_success && result == -7);
	}
	printf("creator %ld\n", thread_id());
}

static void threads(void)
{
	for (int i = 0; i < 30; i++) {
		enum thread_end end = i % END_COUNT;
		pthread_t thread;
		void *result;

		CHECK(pthread_create(&thread, NULL, thread_work, &end) == 0);
		if (end == IS_CANCELLED)
			CHECK(pthread_cancel(thread) == 0);
		CHECK(pthread_join(thread, &result) == 0);
		CHECK(result == (end == IS_CANCELLED ? PTHREAD_CANCELED : &end));
	}
	printf("creator %ld\n", thread_id());
}

/* Locks. */

#define LOCK_ROUNDS 5

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Wait until the thread sleeps in futex(2). */
static void wait_for_sleep(long thread)
{
	char path[64], call[32];
	long number = -1;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/syscall", thread);
	while (number != SYS_futex) {
		FILE *file = fopen(path, "r");

		CHECK(file);
		number = fgets(call, sizeof(call), file) && call[0] != 'r' ? atol(call) : -1;
		fclose(file);
		sched_yield();
	}
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static bool is_signalled;
static long waiting_thread;	/* 0: no thread is about to wait */

static mtx_t c11_mutex;
static cnd_t c11_condition;

struct lock_kind {
	const char *name;
	const void *address;
	void (*hold)(void);
	void (*release)(void);
	void (*wait)(void);		/* for the other thread to release it */
	void (*end)(void);		/* unlocks what wait() locked */
	void (*begin)(void);		/* locks what wait() needs; NULL: nothing */
};

static void hold_mutex(void)
{
	CHECK(pthread_mutex_lock(&mutex) == 0);
}

static void release_mutex(void)
{
	CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static void hold_reader(void)
{
	CHECK(pthread_rwlock_rdlock(&rwlock) == 0);
}

static void hold_writer(void)
{
	CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
}

static void release_rwlock(void)
{
	CHECK(pthread_rwlock_unlock(&rwlock) == 0);
}

static void hold_none(void)
{
	is_signalled = false;
}

static void signal_condition(void)
{
	hold_mutex();
	is_signalled = true;
	CHECK(pthread_cond_signal(&condition) == 0);
	release_mutex();
}

static void wait_condition(void)
{
	while (!is_signalled)
		CHECK(pthread_cond_wait(&condition, &mutex) == 0);
}

static void hold_c11(void)
{
	CHECK(mtx_lock(&c11_mutex) == thrd_success);
}

static void release_c11(void)
{
	CHECK(mtx_unlock(&c11_mutex) == thrd_success);
}

static void signal_c11(void)
{
	hold_c11();
	is_signalled = true;
	CHECK(cnd_broadcast(&c11_condition) == thrd_success);
	release_c11();
}

static void wait_c11(void)
{
	while (!is_signalled)
		CHECK(cnd_wait(&c11_condition, &c11_mutex) == thrd_success);
}

static const struct lock_kind lock_kinds[] = {
	{ "mutex", &mutex, hold_mutex, release_mutex, hold_mutex, release_mutex, NULL },
	{ "write-by-reader", &rwlock, hold_reader, release_rwlock, hold_writer, release_rwlock,
	  NULL },
	{ "write-by-writer", &rwlock, hold_writer, release_rwlock, hold_writer, release_rwlock,
	  NULL },
	{ "read-by-writer", &rwlock, hold_writer, release_rwlock, hold_reader, release_rwlock,
	  NULL },
	{ "condition", &condition, hold_none, signal_condition, wait_condition, release_mutex,
	  hold_mutex },
	{ "mutex", &c11_mutex, hold_c11, release_c11, hold_c11, release_c11, NULL },
	{ "condition", &c11_condition, hold_none, signal_c11, wait_c11, release_c11, hold_c11 },
};

static void *lock_waiter(void *data)
{
	const struct lock_kind *kind = data;
	uint64_t before, after;

	if (kind->begin)
		kind->begin();
	before = now_ns();
	__atomic_store_n(&waiting_thread, thread_id(), __ATOMIC_RELEASE);
	kind->wait();
	after = now_ns();
	kind->end();
	printf("waiter %ld %ld\n", thread_id(), (long)(after - before));
	return NULL;
}

static void wait_once(const struct lock_kind *kind)
{
	uint64_t asleep, held;
	pthread_t thread;

	kind->hold();
	waiting_thread = 0;
	CHECK(pthread_create(&thread, NULL, lock_waiter, (void *)kind) == 0);
	while (!__atomic_load_n(&waiting_thread, __ATOMIC_ACQUIRE))
		sched_yield();
	wait_for_sleep(waiting_thread);
	asleep = now_ns();
	wait_for_sleep(waiting_thread);
	held = now_ns() - asleep;
	kind->release();
	CHECK(pthread_join(thread, NULL) == 0);
	printf("wait %s %p %ld %ld\n", kind->name, kind->address, thread_id(), (long)held);
}

static void locks(void)
{
	const struct timespec past = { .tv_sec = 1 };

	CHECK(mtx_init(&c11_mutex, mtx_timed) == thrd_success);
	CHECK(cnd_init(&c11_condition) == thrd_success);
	for (size_t i = 0; i < sizeof(lock_kinds) / sizeof(lock_kinds[0]); i++) {
		for (int round = 0; round < LOCK_ROUNDS; round++)
			wait_once(&lock_kinds[i]);
	}
	/* No thread waits, so there is no event. */
	for (int i = 0; i < 100000; i++) {
		hold_mutex();
		release_mutex();
		hold_reader();
		release_rwlock();
	}
	hold_mutex();
	CHECK(pthread_cond_timedwait(&condition, &mutex, &past) == ETIMEDOUT);
	CHECK(pthread_mutex_timedlock(&mutex, &past) == ETIMEDOUT);
	release_mutex();
	hold_c11();
	CHECK(cnd_timedwait(&c11_condition, &c11_mutex, &past) == thrd_timedout);
	CHECK(mtx_timedlock(&c11_mutex, &past) == thrd_timedout);
	release_c11();
	hold_writer();
	/* The same results as without the wrappers. */
	CHECK(pthread_rwlock_tryrdlock(&rwlock) == EBUSY);
	CHECK(pthread_rwlock_wrlock(&rwlock) == EDEADLK);
	release_rwlock();
}

/* The heap. Sizes differ, so that the test finds each block among those of libc. */

#define HEAP_SIZE 100000u

static size_t next_size = HEAP_SIZE;

static void *print_block(const char *function, void *block)
{
	CHECK(block);
	memset(block, 1, next_size);
	printf("allocated %s %p %zu\n", function, block, next_size++);
	return block;
}

static void free_block(void *block)
{
	printf("freed %p\n", block);
	free(block);
}

static void heap_functions(void)
{
	volatile size_t impossible_count = SIZE_MAX;
	void *block, *others[6], *volatile impossible;

	free_block(print_block("malloc", malloc(next_size)));
	free_block(print_block("calloc", calloc(1, next_size)));
	free_block(print_block("realloc", realloc(NULL, next_size)));
	free_block(print_block("reallocarray", reallocarray(NULL, next_size, 1)));
	CHECK(posix_memalign(&block, 64, next_size) == 0);
	others[0] = print_block("posix_memalign", block);
	others[1] = print_block("memalign", memalign(64, next_size));
	others[2] = print_block("valloc", valloc(next_size));
	next_size = next_size / 64 * 64 + 64;
	others[3] = print_block("aligned_alloc", aligned_alloc(64, next_size));
	others[4] = print_block("malloc", malloc(next_size));
	printf("freed %p\n", others[4]);
	others[5] = print_block("realloc", realloc(others[4], next_size));
	/* A realloc(3) that fails leaves the block as it is. */
	impossible = realloc(others[5], (size_t)PTRDIFF_MAX - 100);
	CHECK(!impossible && errno == ENOMEM);
	CHECK(!calloc(impossible_count, 16));
	for (int i = 0; i < 3; i++)
		free_block(others[i]);
}

/* Numbers of blocks of three sizes, of which a sampler finds a part. */
static void heap_samples(void)
{
	static const struct { size_t size; int count; } kinds[] = {
		{ 96, 400000 }, { 1000, 200000 }, { 20000, 20000 },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		for (int block = 0; block < kinds[i].count; block++) {
			void *volatile memory = malloc(kinds[i].size);

			CHECK(memory);
			free(memory);
		}
		printf("size %zu %d\n", kinds[i].size, kinds[i].count);
	}
}

/* Calls before any constructor, also before that of libringpipe-inbox. */

static void *early_block;
static int early_sum;

static void *early_thread(void *data)
{
	return data;
}

static void call_early(int argc, char **argv, char **environment)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
	pthread_cond_t signalled = PTHREAD_COND_INITIALIZER;
	pthread_t thread;

	(void)argc;
	(void)argv;
	(void)environment;
	early_block = realloc(malloc(10), 1000);
	free(calloc(10, 10));
	early_sum += pthread_mutex_lock(&own) + pthread_mutex_unlock(&own);
	early_sum += pthread_rwlock_rdlock(&shared) + pthread_rwlock_unlock(&shared);
	early_sum += pthread_cond_signal(&signalled);
	early_sum += pthread_create(&thread, NULL, early_thread, NULL);
	early_sum += pthread_join(thread, NULL);
	early_sum += signal(SIGUSR1, SIG_IGN) == SIG_ERR;
}

__attribute__((section(".preinit_array"), used))
static void (*const early)(int, char **, char **) = call_early;

static void early_calls(void)
{
	CHECK(early_block && early_sum == 0);
	free(early_block);
}

/* Memory that ends: the functions fail as without the wrappers, and the program continues. */

#define LIMIT_BYTES (256u << 20)
#define STEP_BYTES (1u << 20)

static void no_memory(void)
{
	struct rlimit limit = { LIMIT_BYTES, LIMIT_BYTES };
	void *first = NULL, **block;
	int failed = 0;

	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	for (size_t size = STEP_BYTES; size >= 16; size /= 2) {
		while ((block = malloc(size))) {
			*block = first;
			first = block;
		}
		CHECK(errno == ENOMEM);
	}
	for (int i = 0; i < 100; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, early_thread, NULL) == 0)
			CHECK(pthread_join(thread, NULL) == 0);
		else
			failed++;
		CHECK(!realloc(first, STEP_BYTES) && errno == ENOMEM);
		CHECK(posix_memalign((void **)&block, 64, STEP_BYTES) == ENOMEM);
	}
	for (; first; first = block) {
		block = *(void **)first;
		free(first);
	}
	printf("failed %d\n", failed);
}

static const struct part {
	const char *name;
	void (*run)(void);
} parts[] = {
	{ "threads", threads },
	{ "c11-threads", c11_threads },
	{ "locks", locks },
	{ "heap-functions", heap_functions },
	{ "heap-samples", heap_samples },
	{ "early-calls", early_calls },
	{ "no-memory", no_memory },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (argc == 2 && !strcmp(argv[1], parts[i].name)) {
			parts[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: inbox_program PART\n");
	return 2;
}
