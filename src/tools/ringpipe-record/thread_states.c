/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/thread_states.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static unsigned char *state_at(const struct rp_thread_states *states, size_t index)
{
	return states->states + index * states->state_bytes;
}

void *rp_thread_states_get(struct rp_thread_states *states, pid_t thread)
{
	struct rp_thread_slot *slot = rp_thread_table_find(&states->table, (uint64_t)thread);
	unsigned char *grown;

	if (slot)
		return state_at(states, slot->index - 1);
	grown = rp_array_reserve(states->states, states->count, &states->capacity, 1,
				 states->state_bytes);
	if (!grown)
		return NULL;
	states->states = grown;
	if (rp_thread_table_add(&states->table, (uint64_t)thread, &slot) < 0)
		return NULL;
	grown = state_at(states, states->count++);
	memset(grown, 0, states->state_bytes);
	memcpy(grown, &thread, sizeof(thread));
	slot->index = states->count & 0x3fffffff;
	return grown;
}

/* The last state takes the place of a removed one. */
void rp_thread_states_remove(struct rp_thread_states *states, pid_t thread)
{
	struct rp_thread_slot *slot = rp_thread_table_find(&states->table, (uint64_t)thread);
	uint32_t index;
	pid_t last;

	if (!slot)
		return;
	index = slot->index;
	memcpy(&last, state_at(states, --states->count), sizeof(last));
	memmove(state_at(states, index - 1), state_at(states, states->count), states->state_bytes);
	slot = rp_thread_table_find(&states->table, (uint64_t)last);
	slot->index = index & 0x3fffffff;
	rp_thread_table_remove(&states->table, (uint64_t)thread);
}

void rp_thread_states_fini(struct rp_thread_states *states)
{
	rp_thread_table_fini(&states->table);
	free(states->states);
	states->states = NULL;
	states->count = states->capacity = 0;
}
