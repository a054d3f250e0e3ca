/* SPDX-License-Identifier: MIT */
#include "core/activity.h"

#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/atomic.h"
#include "ring/slot.h"

__thread struct rp_activity_slots rp_activity_slots __attribute__((tls_model("initial-exec")));

/* Process-wide part of fresh ids; the rest is a counter. */
static uint64_t seed;
static uint64_t counter;

void rp_activity_init(void)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint64_t)(uintptr_t)&seed ^ ((uint64_t)getpid() << 32);
	rp_store_relaxed(&seed, random);
}

/*
 * A signal handler may set the ids in the middle of this, any number of times; the state then
 * differs and the copy is taken again.
 */
RP_PUBLIC void rp_activity_get(struct rp_activity *ret_activity)
{
	const volatile uint32_t *now = &rp_activity_slots.state;
	uint32_t state;

	do {
		state = *now;
		rp_compiler_barrier();
		*ret_activity = rp_activity_slots.slots[state % RP_ACTIVITY_SLOTS];
		rp_compiler_barrier();
	} while (*now != state);
}

/*
 * Claims a slot that is neither current nor being filled by a call this one interrupted. A handler
 * in the middle leaves the mask as it found it, but may have made the chosen slot current.
 */
static uint32_t claim_slot(void)
{
	const volatile uint32_t *now = &rp_activity_slots.state;
	volatile uint32_t *filling = &rp_activity_slots.filling;

	for (;;) {
		uint32_t taken = *filling | 1u << *now % RP_ACTIVITY_SLOTS;
		uint32_t slot;

		/* Calls that never came back, by siglongjmp, left their bits. */
		if (taken == (1u << RP_ACTIVITY_SLOTS) - 1) {
			*filling = 0;
			continue;
		}
		slot = (uint32_t)__builtin_ctz(~taken);
		*filling |= 1u << slot;
		if (*now % RP_ACTIVITY_SLOTS != slot)
			return slot;
		*filling &= ~(1u << slot);
	}
}

/* A free slot is filled, then one store makes it current. */
RP_PUBLIC void rp_activity_set(const struct rp_activity *activity)
{
	static const struct rp_activity none;
	volatile uint32_t *now = &rp_activity_slots.state;
	volatile uint32_t *any = &rp_activity_slots.any;
	bool is_none = memcmp(activity, &none, sizeof(none)) == 0;
	uint32_t slot = claim_slot();
	uint32_t state;

	rp_compiler_barrier();
	rp_activity_slots.slots[slot] = *activity;
	rp_compiler_barrier();
	/* A handler between the load and the store is overruled, as if it had come before. */
	state = (*now & ~(RP_ACTIVITY_SLOTS - 1)) + RP_ACTIVITY_SLOTS + slot;
	*now = state;
	*(volatile uint32_t *)&rp_activity_slots.filling &= ~(1u << slot);
	*any = !is_none;
	/* A handler since the store above: what it set is current, and `any` was ours. */
	if (is_none && *now != state)
		*any = 1;
	/* What the thread found, it found without ids; while there are some it finds nothing. */
	if (*any)
		*(volatile uint64_t *)&rp_thread_ring.bit = RP_NO_BIT;
}

/* The end of Steele's SplitMix64: one to one, so numbers stay different. */
uint64_t rp_activity_number(void)
{
	uint64_t z = rp_load_relaxed(&seed) +
		     (rp_add_relaxed(&counter, 1) + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* RFC 4122 version 4 in shape: 60 random bits of the process, then a counter. */
RP_PUBLIC void rp_activity_create(struct rp_guid *ret_id)
{
	uint64_t random = rp_load_relaxed(&seed);
	uint64_t number = rp_add_relaxed(&counter, 1) + 1;

	memcpy(ret_id->bytes, &random, 8);
	ret_id->bytes[6] = (uint8_t)((ret_id->bytes[6] & 0x0f) | 0x40);
	for (int i = 0; i < 8; i++)
		ret_id->bytes[15 - i] = (uint8_t)(number >> (8 * i));
	ret_id->bytes[8] = (uint8_t)((ret_id->bytes[8] & 0x3f) | 0x80);
}

RP_PUBLIC void rp_activity_begin(struct rp_activity *ret_outer)
{
	struct rp_activity inner;

	rp_activity_get(ret_outer);
	inner.related = ret_outer->id;
	rp_activity_create(&inner.id);
	rp_activity_set(&inner);
}

RP_PUBLIC void rp_activity_end(const struct rp_activity *outer)
{
	rp_activity_set(outer);
}
