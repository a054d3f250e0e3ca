/* SPDX-License-Identifier: MIT */
/* A state for each thread that has not ended, so that the memory does not grow with time. */
#ifndef RP_RECORD_THREAD_STATES_H
#define RP_RECORD_THREAD_STATES_H

#include <stddef.h>
#include <sys/types.h>

#include "nettrace/thread_table.h"

/* Set the first member, and the others to zero. */
struct rp_thread_states {
	size_t state_bytes;		/* of a state, whose first member is the thread's pid_t */
	struct rp_thread_table table;	/* index: that of the state, plus 1 */
	unsigned char *states;
	size_t count, capacity;
};

/*
 * Return: the state, which has zeros if it is new; NULL: no memory. Valid until a state is added or
 * removed.
 */
void *rp_thread_states_get(struct rp_thread_states *states, pid_t thread);

/* Remove the state of a thread that has ended, if it has one. */
void rp_thread_states_remove(struct rp_thread_states *states, pid_t thread);
void rp_thread_states_fini(struct rp_thread_states *states);

#endif
