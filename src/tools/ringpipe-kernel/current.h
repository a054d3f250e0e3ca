/* SPDX-License-Identifier: MIT */
/* Which activity each thread is at, by what the stream says of it. */
#ifndef RP_KERNEL_CURRENT_H
#define RP_KERNEL_CURRENT_H

#include "nettrace/event_header.h"
#include "nettrace/outbuf.h"
#include "nettrace/thread_table.h"

struct rp_current {
	struct rp_thread_table threads;	/* the number of each is its index in `states`, from 1 */
	struct rp_outbuf states;	/* struct state */
};

/* After an event of the stream with this opcode, in the order of time. -ENOMEM. */
int rp_current_follow(struct rp_current *current, const struct rp_wire_event *event,
		      uint32_t opcode);

/* 16 bytes as the wire has them, zeros for none. */
const uint8_t *rp_current_activity(const struct rp_current *current, uint64_t thread);

void rp_current_fini(struct rp_current *current);

#endif
