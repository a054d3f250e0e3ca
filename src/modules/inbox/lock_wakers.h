/* SPDX-License-Identifier: MIT */
/*
 * The thread that last unlocked a lock or signalled a condition, for locks on which a thread waits.
 * A slot is chosen by a hash of the address, so that the memory is fixed. A slot that several locks
 * share has the last waker of any of them; a waiter whose lock is not the one in the slot gets no
 * waker.
 */
#ifndef RP_INBOX_LOCK_WAKERS_H
#define RP_INBOX_LOCK_WAKERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define INBOX_WAKER_BITS 10
#define INBOX_WAKER_SLOTS (1u << INBOX_WAKER_BITS)

struct inbox_waker {
	uint32_t waiting;		/* threads that wait */
	uint64_t last;			/* 42 bits of the address, and 22 of the thread id */
};

extern struct inbox_waker rp_inbox_wakers[INBOX_WAKER_SLOTS] __attribute__((visibility("hidden")));

static inline struct inbox_waker *rp_inbox_waker_slot(const void *lock)
{
	return &rp_inbox_wakers[(uint32_t)(uintptr_t)lock * 0x9e3779b1u >> (32 - INBOX_WAKER_BITS)];
}

/* Begin and end a wait. Context: any thread. */
void rp_inbox_waker_expect(const void *lock);
void rp_inbox_waker_forget(const void *lock);

/* Return: the thread that last woke waiters of the lock; 0: unknown. */
pid_t rp_inbox_waker_of(const void *lock);

void rp_inbox_waker_store(struct inbox_waker *slot, const void *lock);

/* Return: whether a thread may be waiting for the lock. */
static inline bool rp_inbox_waker_is_expected(const void *lock)
{
	return __builtin_expect(__atomic_load_n(&rp_inbox_waker_slot(lock)->waiting,
						__ATOMIC_RELAXED) != 0, 0);
}

/* State that this thread is about to wake waiters of the lock. One test if no thread waits. */
static inline void rp_inbox_waker_announce(const void *lock)
{
	if (rp_inbox_waker_is_expected(lock))
		rp_inbox_waker_store(rp_inbox_waker_slot(lock), lock);
}

#endif
