/* SPDX-License-Identifier: MIT */
/*
 * Activity ids: one pair per thread. A reader always gets a complete pair, even if signal handlers
 * set ids.
 *
 * A thread claims a block when it first sets ids, which may be in a signal handler. Claiming
 * therefore uses no lock and no malloc, and no destructor releases the block. A thread that needs a
 * block first checks a few existing ones, and takes over the block of a thread that has ended.
 */
#include "core/activity_slots.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <ringpipe/span.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/thread.h"
#include "ring/slot.h"

#define BLOCKS_FIRST 32u	/* in the first chunk; each further chunk has twice as many */
#define CHUNKS 17u		/* 4,194,272 blocks: the kernel allows no more threads */
#define BLOCKS_MAX (BLOCKS_FIRST * ((1u << CHUNKS) - 1))
#define LOOKS 4u		/* existing blocks to check before a new one is used */

/*
 * NULL: the thread has set no ids yet. The ids are outside thread-local storage, because a library
 * that is loaded late gets little of it (see tests/process/copies.c). initial-exec, because the
 * first access from a signal handler must not allocate.
 */
static __thread struct rp_activity_block *thread_block __attribute__((tls_model("initial-exec")));

/*
 * Profilers find a variable of another object by its TLS descriptor. The access of this library
 * allocates nothing even so, because the other variables make the library's whole TLS static.
 */
#ifdef RP_TLS_DESCRIPTORS
#define PUBLISHED_TLS __attribute__((tls_model("global-dynamic")))
#else
#define PUBLISHED_TLS __attribute__((tls_model("initial-exec")))
#endif

/* The record of the thread's current ids, or NULL. */
extern __thread const void *otel_thread_ctx_v1 PUBLISHED_TLS;
RP_PUBLIC __thread const void *otel_thread_ctx_v1 PUBLISHED_TLS;

static bool is_published;

uint32_t rp_activity_block_count;

static struct rp_activity_block first_chunk[BLOCKS_FIRST];
static struct rp_activity_block *chunks[CHUNKS] = { first_chunk };
static uint32_t next_look;

/* Process-wide part of new ids; the rest is a counter. */
static uint64_t seed;
/* The first words of ids of this process, and of those that a forked child inherits. */
static uint64_t own_first = 0x40ull << 48, parent_first = 0x40ull << 48;	/* never 0 */
static uint64_t counter;

/* Byte 6 has the version of RFC 4122 in its upper half; the other 60 bits are random. */
static uint64_t first_word(uint64_t of_seed)
{
	return (of_seed & ~(0xf0ull << 48)) | 0x40ull << 48;
}

void rp_activity_init(void)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint64_t)(uintptr_t)&seed ^ ((uint64_t)getpid() << 32);
	rp_store_relaxed(&parent_first, rp_load_relaxed(&own_first));
	rp_store_relaxed(&seed, random);
	rp_store_relaxed(&own_first, first_word(random));
	rp_store_relaxed(&is_published, false);
	otel_thread_ctx_v1 = NULL;
	if (thread_block) {
		memset(thread_block->contexts, 0, sizeof(thread_block->contexts));
		rp_store_relaxed(&thread_block->owner, rp_thread_id());
	}
}

static struct rp_activity_block *map_chunk(uint32_t chunk)
{
	size_t bytes = ((size_t)BLOCKS_FIRST << chunk) * sizeof(struct rp_activity_block);
	struct rp_activity_block *other = NULL, *blocks;

	blocks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (blocks == MAP_FAILED)
		return NULL;
	if (rp_cas_seq_cst(&chunks[chunk], &other, blocks))
		return blocks;
	munmap(blocks, bytes);
	return other;
}

/* Return NULL without memory. */
static struct rp_activity_block *block_at(uint32_t index)
{
	uint32_t chunk = 31u - (uint32_t)__builtin_clz(index / BLOCKS_FIRST + 1);
	struct rp_activity_block *blocks = rp_load_acquire(&chunks[chunk]);

	if (!blocks)
		blocks = map_chunk(chunk);
	return blocks ? blocks + (index - BLOCKS_FIRST * ((1u << chunk) - 1)) : NULL;
}

static bool take(struct rp_activity_block *block, uint32_t thread)
{
	uint32_t owner = rp_load_relaxed(&block->owner);

	if (owner != 0 && !rp_thread_has_ended(owner))
		return false;
	if (!rp_cas_seq_cst(&block->owner, &owner, thread))	/* [ACTIVITY-OWNER] */
		return false;
	block->state = 0;
	block->filling = 0;
	block->published = &otel_thread_ctx_v1;
	memset(&block->slots[0], 0, sizeof(block->slots[0]));
	memset(block->contexts, 0, sizeof(block->contexts));
	return true;
}

static struct rp_activity_block *claim(uint32_t thread)
{
	uint32_t count = rp_load_relaxed(&rp_activity_block_count);
	struct rp_activity_block *block;

	for (uint32_t i = 0; i < LOOKS && i < count; i++) {
		block = block_at(rp_add_relaxed(&next_look, 1) % count);
		if (block && take(block, thread))
			return block;
	}
	while (rp_load_relaxed(&rp_activity_block_count) < BLOCKS_MAX) {
		block = block_at(rp_add_relaxed(&rp_activity_block_count, 1) % BLOCKS_MAX);
		if (!block)
			break;
		if (take(block, thread))
			return block;
	}
	return NULL;
}

/*
 * A signal handler may set the ids during the copy, any number of times. The state then differs,
 * and the copy is repeated. no_sanitize, because ThreadSanitizer does not know that the previous
 * owner of the block has ended.
 */
__attribute__((no_sanitize("thread")))
void rp_activity_read(struct rp_activity *ret_activity)
{
	const struct rp_activity_block *block = thread_block;
	const volatile uint32_t *now = &block->state;
	uint32_t state;

	do {
		state = *now;
		rp_compiler_barrier();
		*ret_activity = block->slots[state % RP_ACTIVITY_SLOTS];
		rp_compiler_barrier();
	} while (*now != state);
}

RP_PUBLIC void rp_activity_get(struct rp_activity *ret_activity)
{
	static const struct rp_activity none;

	*ret_activity = none;
	if (thread_block)
		rp_activity_read(ret_activity);
}

/*
 * Claim a slot that is neither current nor being filled by an interrupted call. A signal handler
 * restores the mask, but may have changed the state.
 * @ret_filling: the mask to restore. The caller stores it, because a load of the mask just after
 *	its store would wait for that store.
 *
 * Return: the state in which the slot is current. It is above the current one, so a read that this
 * call interrupted sees another state.
 */
static uint32_t claim_slot(struct rp_activity_block *block, uint32_t *ret_filling)
{
	const volatile uint32_t *now = &block->state;
	volatile uint32_t *filling = &block->filling;

	for (;;) {
		uint32_t before = *filling, state = *now, next = state + 1;

		/* Usually no call was interrupted. A search would take longer. */
		if (__builtin_expect(before, 0)) {
			uint32_t taken = before | 1u << state % RP_ACTIVITY_SLOTS;

			/* Interrupted calls that siglongjmp left did not clear their bits. */
			if (taken == (1u << RP_ACTIVITY_SLOTS) - 1) {
				*filling = 0;
				continue;
			}
			next = (state | (RP_ACTIVITY_SLOTS - 1)) + 1 +
			       (uint32_t)__builtin_ctz(~taken);
		}
		*filling = before | 1u << next % RP_ACTIVITY_SLOTS;
		*ret_filling = before;
		if (*now == state)
			return next;
		*filling = before;
	}
}

static uint64_t word_at(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

static bool is_zero(const struct rp_activity *activity)
{
	return !(word_at(activity->id.bytes) | word_at(activity->id.bytes + 8) |
		 word_at(activity->related.bytes) | word_at(activity->related.bytes + 8));
}

/* Return: whether the ids are those of a trace's span, not of an activity of this process alone. */
static bool is_span(const struct rp_activity *activity)
{
	const uint64_t first = word_at(activity->id.bytes);

	return (first | word_at(activity->id.bytes + 8)) &&
	       word_at(activity->related.bytes + 8) && first != rp_load_relaxed(&own_first) &&
	       first != rp_load_relaxed(&parent_first);
}

/*
 * Fill a record that profilers read through the thread's pointer. Usually the pointer has the
 * address of another record, but a signal handler may have left it at this record, which an earlier
 * span used. The record is therefore invalid while it changes.
 */
static void fill_context(struct rp_activity_block *block, uint32_t slot,
			 const struct rp_activity *activity, bool is_none)
{
	struct rp_thread_context *context = &block->contexts[slot];
	volatile uint8_t *is_valid = &context->is_valid;

	if (*(const void *volatile *)block->published == context || is_none)
		*is_valid = 0;
	if (is_none)
		return;
	rp_compiler_barrier();
	memcpy(context->trace_id, activity->id.bytes, sizeof(context->trace_id));
	memcpy(context->span_id, activity->related.bytes + 8, sizeof(context->span_id));
	rp_compiler_barrier();
	*is_valid = is_span(activity);
}

/*
 * Point at the record of the current slot, also if handlers make others current meanwhile.
 * @state: of which `slot` is current.
 */
static void point_at_context(struct rp_activity_block *block, uint32_t state, uint32_t slot)
{
	const void *volatile *context = block->published;
	const volatile uint32_t *now = &block->state;

	*context = &block->contexts[slot];
	while (*now != state) {
		state = *now;
		*context = &block->contexts[state % RP_ACTIVITY_SLOTS];
	}
}

/*
 * Fill a free slot, then make it current with one store. If a handler sets ids in between, they are
 * lost, as if it had run before.
 */
static inline void fill(struct rp_activity_block *block, const struct rp_activity *activity)
{
	volatile uint32_t *now = &block->state;
	volatile uint32_t *has_ids = &rp_thread_ring.has_ids;
	const bool publishes = rp_load_relaxed(&is_published), is_none = is_zero(activity);
	uint32_t filling, state = claim_slot(block, &filling), slot = state % RP_ACTIVITY_SLOTS;

	rp_compiler_barrier();
	block->slots[slot] = *activity;
	if (publishes)
		fill_context(block, slot, activity, is_none);
	rp_compiler_barrier();
	*now = state;
	if (publishes)
		point_at_context(block, state, slot);
	*(volatile uint32_t *)&block->filling = filling;
	if (is_none)
		*has_ids = 0;
	/*
	 * If a handler ran since the store of the state, its ids are current. The ring cache is
	 * only valid for events without ids.
	 */
	if (!is_none || *now != state) {
		*has_ids = 1;
		*(volatile uint64_t *)&rp_thread_ring.bit = RP_NO_BIT;
	}
}

/*
 * Claim a block, and set the ids if there is memory for it. A signal handler may also claim a block
 * during this call. Its ids are then lost, as if it had run before, and another thread takes over
 * its block after this thread has ended.
 */
__attribute__((noinline, cold))
static void set_first(const struct rp_activity *activity)
{
	struct rp_activity_block *volatile *own = &thread_block;
	int saved = errno;

	if (is_zero(activity))
		return;
	if (!*own)
		*own = claim(rp_thread_id());
	errno = saved;
	if (*own)
		rp_activity_set(activity);
}

RP_PUBLIC void rp_activity_set(const struct rp_activity *activity)
{
	struct rp_activity_block *block = thread_block;

	if (__builtin_expect(!block, 0)) {
		set_first(activity);
		return;
	}
	fill(block, activity);
	/* Pairs with the exchange of the thread that takes the block over. [ACTIVITY-OWNER] */
	rp_store_release(&block->owner, rp_load_relaxed(&block->owner));
}

void rp_activity_publish(void)
{
	rp_store_relaxed(&is_published, true);
}

/* The last steps of Steele's SplitMix64. They are a bijection, so numbers remain different. */
uint64_t rp_activity_number(void)
{
	uint64_t z = rp_load_relaxed(&seed) +
		     (rp_add_relaxed(&counter, 1) + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint64_t rp_activity_own_ids(void)
{
	return rp_load_relaxed(&own_first);
}

/* In the form of RFC 4122 version 4: 60 random bits per process, then a counter. */
RP_PUBLIC void rp_activity_generate(struct rp_guid *ret_id)
{
	const uint64_t first = rp_activity_own_ids();
	const uint64_t number = ((rp_add_relaxed(&counter, 1) + 1) & UINT64_MAX >> 2) | 1ull << 63;
	const uint64_t second = htobe64(number);

	/* Two stores: a processor waits when it loads what it has just stored in smaller parts. */
	memcpy(ret_id->bytes, &first, 8);
	memcpy(ret_id->bytes + 8, &second, 8);
}

RP_PUBLIC void rp_activity_begin(struct rp_activity *ret_outer)
{
	struct rp_activity inner;

	rp_activity_get(ret_outer);
	inner.related = ret_outer->id;
	rp_activity_generate(&inner.id);
	rp_activity_set(&inner);
}

RP_PUBLIC void rp_activity_end(const struct rp_activity *outer)
{
	rp_activity_set(outer);
}

RP_PUBLIC void rp_span_begin(struct rp_span *ret_span, struct rp_activity *ret_outer)
{
	rp_activity_begin(ret_outer);
	rp_activity_get(&ret_span->activity);
	ret_span->begun_ns = rp_clock_monotonic_ns();
}

RP_PUBLIC uint64_t rp_span_end(struct rp_span *span, struct rp_activity *ret_outer)
{
	uint64_t duration_ns = rp_clock_monotonic_ns() - span->begun_ns;

	span->begun_ns = 0;
	rp_activity_get(ret_outer);
	rp_activity_set(&span->activity);
	return duration_ns;
}
