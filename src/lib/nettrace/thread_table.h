/* SPDX-License-Identifier: MIT */
/*
 * A hash table from a thread's id to the number of its last event. A slot has 16 bytes, and at most
 * three quarters of the slots are in use.
 */
#ifndef RP_NETTRACE_THREAD_TABLE_H
#define RP_NETTRACE_THREAD_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct rp_thread_slot {
	uint64_t thread;
	uint32_t sequence;
	uint32_t index : 30;	/* the owner's, of a V6 stream; 0: none yet */
	uint32_t used : 1;
	uint32_t marked : 1;	/* the owner's; counted in the table's `marked` by the owner */
};

struct rp_thread_table {
	struct rp_thread_slot *slots;
	size_t capacity;	/* a power of two, or 0 */
	size_t count;
	size_t marked;
};

/* Return: the slot; NULL: the thread is not in the table. */
struct rp_thread_slot *rp_thread_table_find(const struct rp_thread_table *table, uint64_t thread);

/* Find a thread, or add it with number 0. 0; -ENOMEM. Valid until a thread is added or removed. */
int rp_thread_table_add(struct rp_thread_table *table, uint64_t thread,
			struct rp_thread_slot **ret_slot);

/* Remove a thread, if it is there. Slots move. */
void rp_thread_table_remove(struct rp_thread_table *table, uint64_t thread);

void rp_thread_table_fini(struct rp_thread_table *table);

#endif
