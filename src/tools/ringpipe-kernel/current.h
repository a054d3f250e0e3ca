/* SPDX-License-Identifier: MIT */
/* Follows the current activity of each thread, as the events of the stream show it. */
#ifndef RP_KERNEL_CURRENT_H
#define RP_KERNEL_CURRENT_H

#include "nettrace/event_header.h"
#include "nettrace/outbuf.h"
#include "nettrace/thread_table.h"

struct rp_current {
	struct rp_thread_table threads;	/* maps a thread to its index in `states` plus 1 */
	struct rp_outbuf states;	/* struct state */
};

/* Call it after each event of the stream, in order of time; `opcode` is the event's. -ENOMEM. */
int rp_current_follow(struct rp_current *current, const struct rp_wire_event *event,
		      uint32_t opcode);

/* Return: the thread's current activity id, 16 bytes in the wire's order; zeros: none. */
const uint8_t *rp_current_activity(const struct rp_current *current, uint64_t thread);

void rp_current_fini(struct rp_current *current);

#endif
