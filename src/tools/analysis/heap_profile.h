/* SPDX-License-Identifier: MIT */
/*
 * The heap of a trace with samples of ringpipe-heap: for each stack, an estimate of the blocks and
 * bytes that it allocated, and of those that were not freed before the end.
 *
 * A sampled block of `size` bytes represents 1 / (1 - exp(-size / interval)) blocks. The memory is
 * bounded, to about 200 MB besides the call tree: of more than RP_HEAP_BLOCKS_MAX samples, the
 * further ones count as allocated but not as live.
 */
#ifndef RP_TOOL_HEAP_PROFILE_H
#define RP_TOOL_HEAP_PROFILE_H

#include "tools/analysis/profile.h"
#include "tools/trace/event_expression.h"

#define RP_HEAP_BLOCKS_MAX (1u << 22)

/* The blocks that one stack of one process allocated. */
struct rp_heap_site {
	uint64_t process;
	uint32_t node;			/* of the stack; RP_CALL_NONE: no stack */
	uint64_t samples;
	double allocated_blocks, allocated_bytes;
	double live_blocks, live_bytes;
	double earlier_blocks, earlier_bytes;	/* live at the earlier time */
};

/* A sample. */
struct rp_heap_block {
	uint64_t process, id;
	uint32_t site;
	bool is_freed;
	bool is_earlier;		/* live at the earlier time */
	double blocks, bytes;		/* which it represents */
};

/* Initialise it with zeros, except for the first members. */
struct rp_heap_profile {
	/* The caller's: fulfilled by the samples to count; NULL: all. */
	struct rp_expression *where;
	bool has_earlier;		/* sites get what was live at `earlier_ns`, too */
	int64_t earlier_ns;		/* since the start of the recording */
	struct rp_heap_site *sites;
	size_t site_count, site_capacity;
	struct rp_heap_block *blocks;
	size_t block_count, block_capacity;
	struct rp_call_index by_stack, by_id;
	uint64_t samples;
	uint64_t unfollowed;		/* samples whose end is unknown, which are not live */
	uint64_t without_stack;
};

/* Take the next event of the process, if it is one of ringpipe-heap. Return: 0; -ENOMEM. */
int rp_heap_profile_take(struct rp_heap_profile *heap, struct rp_profile *profile,
			 const struct rp_reader_event *event, uint64_t process);

/* Sort the sites: those with most live bytes first, and then those that allocated most. */
void rp_heap_profile_finish(struct rp_heap_profile *heap);
void rp_heap_profile_fini(struct rp_heap_profile *heap);

#endif
