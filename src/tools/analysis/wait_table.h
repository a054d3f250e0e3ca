/* SPDX-License-Identifier: MIT */
/*
 * Sums of waits by waiting thread, waking thread and lock. A thread of 0 means all threads. The
 * memory is bounded, to about 150 MB: after RP_WAITS_MAX different waits (a wait differs by its
 * stack, too), each further one counts in one last row, `is_rest`.
 */
#ifndef RP_TOOL_WAIT_TABLE_H
#define RP_TOOL_WAIT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/analysis/call_tree.h"

#define RP_WAITS_MAX (1u << 20)

enum rp_wait_row_kind {
	RP_WAIT_ROW_SWITCH,			/* a time off the processor */
	RP_WAIT_ROW_FUTEX,			/* a call of futex(2) */
	RP_WAIT_ROW_MUTEX,
	RP_WAIT_ROW_READ_LOCK,
	RP_WAIT_ROW_WRITE_LOCK,
	RP_WAIT_ROW_CONDITION,
};

/* A row, or one wait. */
struct rp_wait_row {
	uint64_t process, thread;		/* that waited */
	uint64_t waker_process, waker_thread;	/* that ended the wait; 0, 0: unknown */
	uint64_t address;			/* of the futex or the lock */
	enum rp_wait_row_kind kind;
	bool is_rest;
	uint32_t node;			/* of the stack; after _finish(), of the longest one */
	uint64_t count, total_ns, max_ns;
};

/* Initialise it with zeros. */
struct rp_wait_table {
	struct rp_wait_row *rows;
	size_t count, capacity;
	struct rp_call_index by_key;
};

/* Add one wait of `total_ns`; its `count` and `max_ns` are ignored. Return: 0; -ENOMEM. */
int rp_wait_table_add(struct rp_wait_table *table, const struct rp_wait_row *wait);

/* Merge the stacks of each row, and sort the rows: the longest total comes first. */
void rp_wait_table_finish(struct rp_wait_table *table);
void rp_wait_table_fini(struct rp_wait_table *table);

#endif
