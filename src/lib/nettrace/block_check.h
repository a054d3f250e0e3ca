/* SPDX-License-Identifier: MIT */
/*
 * Checks the content of a block as a whole, without the tables of a reader. A reader that resumes
 * after damage applies only blocks without a contradiction.
 */
#ifndef RP_NETTRACE_BLOCK_CHECK_H
#define RP_NETTRACE_BLOCK_CHECK_H

#include <stdbool.h>

#include "base/cursor.h"
#include "nettrace/event_header.h"
#include "nettrace/format.h"

/* The state of the checks of a stream. */
struct rp_block_check {
	bool is_v6;
	bool has_extensions;		/* V6: a later minor version, with attributes of its own */
	uint32_t pointer_bytes;
	uint64_t checked_bytes;		/* as a measure of the time taken */
	/* Return which id of an event is unknown, or NULL. NULL instead: do not check the ids. */
	const char *(*find_unknown)(const void *data, const struct rp_wire_event *event);
	const void *data;		/* argument of the function */
	/* Most writers state the exact times of a block's events, some an interval around them. */
	bool has_exact_times;		/* such a block was seen */
	bool has_loose_times;		/* the writer is one of the others */
};

/* How certain bytes that pass the checks are a block of this stream. */
enum rp_block_proof {
	RP_BLOCK_PLAUSIBLE,	/* other bytes may pass by chance */
	RP_BLOCK_LIKELY,	/* events that end where the block ends */
	RP_BLOCK_PROVEN,	/* and that have exactly the times which the block states */
};

/*
 * Check a block.
 *
 * Return: NULL, with `ret_proof` set, if the block has no contradiction; otherwise what is wrong
 * with the block, for rp_reader_damage.
 */
const char *rp_block_check(struct rp_block_check *check, enum rp_block_kind kind,
			   struct rp_cursor content, enum rp_block_proof *ret_proof);

/*
 * Whether the first bytes of an event block may be right: the complete events in them have known
 * ids, and times between those that the block states. `find_unknown` is set.
 */
bool rp_block_check_cut(const struct rp_block_check *check, struct rp_cursor content);

/* Whether an event block begins with a header that states times: its kind is then not in doubt. */
bool rp_block_has_times(struct rp_cursor content);

#endif
