/* SPDX-License-Identifier: MIT */
#include "modules/inbox/heap_sampler.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/counter.h>

#include "modules/inbox/heap_samples.h"

#define IDS_PER_THREAD 64u
#define INTERVAL_MAX (1ull << 48)	/* bytes; no process allocates that many */

enum inbox_heap_state {
	HEAP_NEW,
	HEAP_ENTERED,			/* in the list */
	HEAP_ENDED,			/* left the list; its last calls count in `ended` */
};

struct inbox_heap rp_inbox_heap = { .generation = 1, .interval = INBOX_HEAP_INTERVAL };
__thread struct inbox_heap_thread rp_inbox_heap_thread;

struct heap_totals {
	uint64_t bytes, calls;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct inbox_heap_thread *threads;	/* guarded by list_lock */
static struct heap_totals ended;		/* of threads that left the list; atomic */
static pthread_key_t key;			/* its destructor runs at the end of a thread */
static bool has_key;
static uint64_t ids_end = 1;			/* ids from this one on belong to no thread yet */
static uint64_t first_id;			/* of the sessions that run */
static bool is_enabled;				/* for the callback */

static uint64_t random_bits(struct inbox_heap_thread *thread)
{
	uint64_t bits = thread->random += 0x9e3779b97f4a7c15u;	/* splitmix64 */

	bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
	bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
	return bits ^ bits >> 31;
}

/*
 * Draw from the exponential distribution with mean 1, by von Neumann's method, which needs no
 * logarithm: a run of falling random numbers has an odd length with the probability exp(-first).
 */
static double draw(struct inbox_heap_thread *thread)
{
	for (double whole = 0; ; whole++) {
		const uint64_t first = random_bits(thread);
		uint64_t previous = first, bits;
		bool is_odd = true;

		while ((bits = random_bits(thread)) < previous) {
			previous = bits;
			is_odd = !is_odd;
		}
		if (is_odd)
			return whole + (double)first * 0x1p-64;
	}
}

/* Set the next sample, counted from `bytes`. With an interval of 1, every block is a sample. */
static void draw_next(struct inbox_heap_thread *thread, uint64_t bytes)
{
	const uint64_t interval = __atomic_load_n(&rp_inbox_heap.interval, __ATOMIC_RELAXED);

	thread->interval = interval;
	thread->next_sample = bytes;
	if (interval > 1)
		thread->next_sample += (uint64_t)(draw(thread) * (double)interval);
}

static void add_to_ended(struct inbox_heap_thread *thread)
{
	__atomic_fetch_add(&ended.bytes, thread->bytes, __ATOMIC_RELAXED);
	__atomic_fetch_add(&ended.calls, thread->calls, __ATOMIC_RELAXED);
	thread->bytes = thread->calls = 0;
}

/* The thread's other destructors may still allocate; it takes the slow path until its end. */
static void leave(void *data)
{
	struct inbox_heap_thread *thread = data;

	rp_inbox_thread.is_busy = true;
	pthread_mutex_lock(&list_lock);
	if (thread->previous)
		thread->previous->next = thread->next;
	else
		threads = thread->next;
	if (thread->next)
		thread->next->previous = thread->previous;
	add_to_ended(thread);
	pthread_mutex_unlock(&list_lock);
	thread->state = HEAP_ENDED;
	thread->generation = 0;
	rp_inbox_thread.is_busy = false;
}

static void add_to_list(struct inbox_heap_thread *thread)
{
	thread->random = rp_inbox_now_ns() ^ (uint64_t)rp_inbox_thread_id() << 32;
	pthread_mutex_lock(&list_lock);
	thread->previous = NULL;
	thread->next = threads;
	if (threads)
		threads->previous = thread;
	threads = thread;
	thread->state = HEAP_ENTERED;
	pthread_mutex_unlock(&list_lock);
	/* It may allocate, and then does not enter again, because the thread is busy. */
	if (pthread_setspecific(key, thread) != 0) {
		leave(thread);
		rp_inbox_thread.is_busy = true;
	}
}

/* Take the slow path for a thread of the program. Its last call had `size` bytes. */
static void enter_program(struct inbox_heap_thread *thread, size_t size)
{
	if (thread->state == HEAP_NEW)
		add_to_list(thread);
	thread->generation = __atomic_load_n(&rp_inbox_heap.generation, __ATOMIC_ACQUIRE);
	draw_next(thread, thread->bytes - size);
}

/* Return: whether the thread samples its blocks. */
static bool enter(struct inbox_heap_thread *thread, size_t size)
{
	if (!rp_inbox_heap_is_slow(thread))
		return thread->state == HEAP_ENTERED;
	/* Threads of ringpipe count nothing, because their work depends on the session. */
	if (rp_inbox_thread.is_of_engine) {
		thread->next_sample = UINT64_MAX;
		thread->generation = rp_inbox_heap.generation;
		return false;
	}
	if (thread->state == HEAP_ENDED)
		add_to_ended(thread);
	else if (has_key)
		enter_program(thread, size);
	return thread->state == HEAP_ENTERED;
}

/* A thread takes several ids in one step. Ids below `first` would belong to an earlier session. */
static uint64_t next_id(struct inbox_heap_thread *thread, uint64_t first)
{
	if (thread->next_id == thread->ids_end || thread->next_id < first) {
		thread->next_id = __atomic_fetch_add(&ids_end, IDS_PER_THREAD, __ATOMIC_RELAXED);
		thread->ids_end = thread->next_id + IDS_PER_THREAD;
	}
	return thread->next_id++;
}

static void sample(struct inbox_heap_thread *thread, void *block, size_t size)
{
	const uint64_t first = __atomic_load_n(&first_id, __ATOMIC_RELAXED);
	uint64_t id;

	if (thread->bytes < thread->next_sample)
		return;
	id = next_id(thread, first);
	if (!rp_inbox_heap_insert(block, id, first))
		id = 0;
	inbox_heap_allocated(id, block, size, thread->interval);
	draw_next(thread, thread->bytes);
}

void *rp_inbox_heap_allocated(void *block, size_t size)
{
	struct inbox_heap_thread *thread = &rp_inbox_heap_thread;
	const int saved_errno = errno;

	/* The size of a failed call may be larger than any memory. */
	if (!block)
		return NULL;
	rp_inbox_heap_add(&thread->bytes, size);
	rp_inbox_heap_add(&thread->calls, 1);
	if (rp_inbox_thread.is_busy)
		return block;
	rp_inbox_thread.is_busy = true;
	if (enter(thread, size))
		sample(thread, block, size);
	rp_inbox_thread.is_busy = false;
	errno = saved_errno;
	return block;
}

void rp_inbox_heap_freed(const void *block, uint64_t id)
{
	const int saved_errno = errno;

	inbox_heap_freed(id, block);
	errno = saved_errno;
}

void rp_inbox_heap_restore(const void *block, uint64_t id)
{
	(void)rp_inbox_heap_insert(block, id, __atomic_load_n(&first_id, __ATOMIC_RELAXED));
}

static void add_thread(struct heap_totals *totals, const struct inbox_heap_thread *thread)
{
	totals->bytes += __atomic_load_n(&thread->bytes, __ATOMIC_RELAXED);
	totals->calls += __atomic_load_n(&thread->calls, __ATOMIC_RELAXED);
}

/*
 * The callback of a counter. Counting begins when a client reads a counter for the first time, so
 * that an unobserved program does not pay for it.
 * @data: the offset of the number in struct heap_totals.
 */
static int observe(struct rp_observation *observation, void *data)
{
	const size_t offset = (size_t)(uintptr_t)data;
	struct heap_totals totals;
	uint64_t number;

	__atomic_store_n(&rp_inbox_heap.is_counting, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&list_lock);
	totals.bytes = __atomic_load_n(&ended.bytes, __ATOMIC_RELAXED);
	totals.calls = __atomic_load_n(&ended.calls, __ATOMIC_RELAXED);
	for (const struct inbox_heap_thread *thread = threads; thread; thread = thread->next)
		add_thread(&totals, thread);
	pthread_mutex_unlock(&list_lock);
	memcpy(&number, (const char *)&totals + offset, sizeof(number));
	return rp_observe(observation, (double)number, NULL, 0);
}

/* Return: the number of SampleBytes in "k=v;k2=v2"; 0: there is no number up to INTERVAL_MAX. */
static uint64_t interval_of(const char *arguments)
{
	static const char name[] = "SampleBytes=";

	for (const char *at = arguments; at && *at; at = strchr(at, ';')) {
		at += *at == ';';
		if (!strncmp(at, name, sizeof(name) - 1)) {
			const char *digits = at + sizeof(name) - 1;
			char *end;
			const uint64_t bytes = strtoull(digits, &end, 10);

			return *digits >= '0' && *digits <= '9' && (*end == '\0' || *end == ';') &&
			       bytes <= INTERVAL_MAX ? bytes : 0;
		}
	}
	return 0;
}

static void set_interval(uint64_t interval)
{
	if (interval == rp_inbox_heap.interval)
		return;
	__atomic_store_n(&rp_inbox_heap.interval, interval, __ATOMIC_RELAXED);
	__atomic_store_n(&rp_inbox_heap.generation,
			 rp_inbox_heap.generation == UINT32_MAX ? 1 : rp_inbox_heap.generation + 1,
			 __ATOMIC_RELEASE);
}

static void on_session(struct rp_provider *provider, const struct rp_provider_state *state,
		       void *data)
{
	const uint64_t interval = state->source_enabled ? interval_of(state->filter_data) : 0;

	(void)provider;
	(void)data;
	if (state->enabled && !is_enabled)
		__atomic_store_n(&first_id, __atomic_load_n(&ids_end, __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
	is_enabled = state->enabled;
	if (interval || !state->enabled)
		set_interval(interval ? interval : INBOX_HEAP_INTERVAL);
}

/* A child has one thread, no session and no client. */
static void forget_parent(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	list_lock = unlocked;
	threads = NULL;
	ended = (struct heap_totals){ 0 };
	rp_inbox_heap.is_counting = 0;
	is_enabled = false;
	if (rp_inbox_heap_thread.state == HEAP_ENTERED)
		rp_inbox_heap_thread = (struct inbox_heap_thread){ .state = HEAP_NEW };
}

void rp_inbox_heap_init(void)
{
	static const struct {
		const char *name, *unit, *display_name;
		size_t offset;
	} counters[] = {
		{ "allocated-bytes", "bytes", "Bytes allocated",
		  offsetof(struct heap_totals, bytes) },
		{ "allocations", "calls", "Allocations", offsetof(struct heap_totals, calls) },
	};

	has_key = pthread_key_create(&key, leave) == 0;
	pthread_atfork(NULL, NULL, forget_parent);
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		struct rp_counter_decl decl = RP_COUNTER_DECL_INIT;
		struct rp_counter *counter;

		decl.kind = RP_COUNTER_OBSERVED_SUM;
		decl.name = counters[i].name;
		decl.unit = counters[i].unit;
		decl.display_name = counters[i].display_name;
		decl.observe = observe;
		decl.data = (void *)(uintptr_t)counters[i].offset;
		/* Without memory, the program runs without the counter. */
		(void)rp_counter_create(inbox_heap_provider(), &decl, &counter);
	}
	(void)rp_provider_set_callback(inbox_heap_provider(), on_session, NULL);
}
