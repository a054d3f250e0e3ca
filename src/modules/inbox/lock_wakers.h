/* SPDX-License-Identifier: MIT */
/*
 * The thread that last unlocked a lock or signalled a condition, for locks on which a thread waits.
 * A slot is chosen by a hash of the address, so that the memory is fixed. A slot that several locks
 * share has the last waker of any of them; a waiter whose lock is not the one in the slot gets no
 * waker.
 */
#ifndef RP_INBOX_LOCK_WAKERS_H
#define RP_INBOX_LOCK_WAKERS_H

#include <stdint.h>
#include <sys/types.h>

#define INBOX_WAKER_SLOTS 1024u		/* a power of two */

struct inbox_waker {
	uint32_t waiting;		/* threads that wait */
	uint64_t last;			/* 42 bits of the address, and 22 of the thread id */
};

extern struct inbox_waker rp_inbox_wakers[INBOX_WAKER_SLOTS] __attribute__((visibility("hidden")));

static inline struct inbox_waker *rp_inbox_waker_slot(const void *lock)
{
	const uint64_t hash = ((uint64_t)(uintptr_t)lock >> 3) * 0x9e3779b97f4a7c15u;

	return &rp_inbox_wakers[hash >> 54];
}

/* Begin and end a wait. Context: any thread. */
void rp_inbox_waker_expect(const void *lock);
void rp_inbox_waker_forget(const void *lock);

/* Return: the thread that last woke waiters of the lock; 0: unknown. */
pid_t rp_inbox_waker_of(const void *lock);

void rp_inbox_waker_store(struct inbox_waker *slot, const void *lock);

/* State that this thread is about to wake waiters of the lock. One test if no thread waits. */
static inline void rp_inbox_waker_announce(const void *lock)
{
	struct inbox_waker *slot = rp_inbox_waker_slot(lock);

	if (__builtin_expect(__atomic_load_n(&slot->waiting, __ATOMIC_RELAXED) != 0, 0))
		rp_inbox_waker_store(slot, lock);
}

#endif
