/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-kernel/current.h"

#include <ringpipe/types.h>

struct state {
	uint8_t now[16];
	uint8_t outer[16];		/* current activity when this one was started */
};

static const uint8_t none[16];

static struct state *find(const struct rp_current *current, uint64_t thread)
{
	const struct rp_thread_slot *slot = rp_thread_table_find(&current->threads, thread);

	return slot ? (struct state *)current->states.bytes + slot->sequence - 1 : NULL;
}

static struct state *add(struct rp_current *current, uint64_t thread)
{
	static const struct state empty;
	struct rp_thread_slot *slot;

	if (rp_outbuf_reserve(&current->states, sizeof(empty)) < 0 ||
	    rp_thread_table_add(&current->threads, thread, &slot) < 0)
		return NULL;
	rp_outbuf_put(&current->states, &empty, sizeof(empty));
	slot->sequence = current->states.size / sizeof(empty);
	return find(current, thread);
}

int rp_current_follow(struct rp_current *current, const struct rp_wire_event *event,
		      uint32_t opcode)
{
	struct state *state = find(current, event->thread);

	if (!state && !memcmp(event->activity, none, 16))
		return 0;
	if (!state)
		state = add(current, event->thread);
	if (!state)
		return -ENOMEM;
	if (opcode == RP_OPCODE_STOP) {
		memcpy(state->now, state->outer, 16);
		memset(state->outer, 0, 16);
		return 0;
	}
	if (opcode == RP_OPCODE_START && memcmp(state->now, event->activity, 16))
		memcpy(state->outer, state->now, 16);
	memcpy(state->now, event->activity, 16);
	return 0;
}

const uint8_t *rp_current_activity(const struct rp_current *current, uint64_t thread)
{
	const struct state *state = find(current, thread);

	return state ? state->now : none;
}

void rp_current_fini(struct rp_current *current)
{
	rp_thread_table_fini(&current->threads);
	rp_outbuf_fini(&current->states);
}
