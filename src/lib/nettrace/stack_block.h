/* SPDX-License-Identifier: MIT */
/* The content of the open StackBlock: each distinct stack once, found by its hash. */
#ifndef RP_NETTRACE_STACK_BLOCK_H
#define RP_NETTRACE_STACK_BLOCK_H

#include <stdbool.h>

#include "base/addresses.h"
#include "nettrace/outbuf.h"

struct rp_stack_entry;

struct rp_stack_set {
	struct rp_outbuf content;	/* of the block: first id, count, stacks */
	struct rp_stack_entry *entries;	/* made with the first stack */
	uint32_t first_id;
	uint32_t count;
	struct rp_address_set addresses;	/* of all blocks */
};

void rp_stack_set_init(struct rp_stack_set *set);
void rp_stack_set_fini(struct rp_stack_set *set);

/* Find or make the id of a stack of an event at `time_ns`; 0 for no frames. 0; -ENOMEM. */
int rp_stack_set_intern(struct rp_stack_set *set, const uint64_t *frames, uint32_t frame_count,
			uint64_t time_ns, uint32_t *ret_id);

/* True: close the block before the next stack. */
bool rp_stack_set_full(const struct rp_stack_set *set);

/* The block was written: begin the next one. Its ids continue, or start at 1 if `from_one`. */
void rp_stack_set_next(struct rp_stack_set *set, bool from_one);

size_t rp_stack_set_memory(const struct rp_stack_set *set);

#endif
