/* SPDX-License-Identifier: MIT */
#include "modules/inbox/lock_wakers.h"

#include "modules/inbox/inbox.h"

#define THREAD_BITS 22			/* thread ids of Linux are below 2^22 */
#define THREAD_MASK ((1u << THREAD_BITS) - 1)

struct inbox_waker rp_inbox_wakers[INBOX_WAKER_SLOTS];

static uint64_t address_bits(const void *lock)
{
	return (uint64_t)(uintptr_t)lock >> 3 << THREAD_BITS;
}

void rp_inbox_waker_expect(const void *lock)
{
	__atomic_fetch_add(&rp_inbox_waker_slot(lock)->waiting, 1, __ATOMIC_RELAXED);
}

void rp_inbox_waker_forget(const void *lock)
{
	__atomic_fetch_sub(&rp_inbox_waker_slot(lock)->waiting, 1, __ATOMIC_RELAXED);
}

pid_t rp_inbox_waker_of(const void *lock)
{
	const uint64_t last = __atomic_load_n(&rp_inbox_waker_slot(lock)->last, __ATOMIC_RELAXED);

	return (last & ~(uint64_t)THREAD_MASK) == address_bits(lock) ?
	       (pid_t)(last & THREAD_MASK) : 0;
}

void rp_inbox_waker_store(struct inbox_waker *slot, const void *lock)
{
	__atomic_store_n(&slot->last,
			 address_bits(lock) | ((uint64_t)rp_inbox_thread_id() & THREAD_MASK),
			 __ATOMIC_RELAXED);
}
