/* SPDX-License-Identifier: MIT */
/*
 * How a reader resumes after damage. reader_resume.c finds the next block, reader_declared.c keeps
 * the tables of the reader free from what damage may have made wrong.
 */
#ifndef RP_NETTRACE_READER_RESUME_H
#define RP_NETTRACE_READER_RESUME_H

#include <stdbool.h>

#include "nettrace/block_check.h"
#include "nettrace/outbuf.h"

struct rp_reader;

/* The most that a damaged part of the stream may have contained. */
enum rp_damage_scope {
	RP_DAMAGE_EVENTS,	/* events only */
	RP_DAMAGE_BLOCK,	/* one block of any kind */
	RP_DAMAGE_BLOCKS,	/* any number of blocks */
};

/* The ids of the stacks or label lists of a stream. */
struct rp_id_order {
	uint32_t last;		/* id */
	uint32_t gaps;		/* blocks that left ids out */
	bool missed;		/* damage since the last sequence point: ids are missing */
	bool ignores;		/* up to the next sequence point: two blocks contradict it */
};

struct rp_reader_resume {
	bool is_enabled;
	struct rp_block_check check;
	unsigned int shift;		/* V4: padding is by offset + shift, after a cut */
	struct rp_outbuf ranges;	/* struct rp_reader_damage, up to a limit */
	uint64_t range_count, damaged_bytes;
	uint64_t lost_events;

	/* The reader may have missed these in a damaged part of the stream: */
	bool missed_declarations;	/* definitions, threads, removals or sequence points */
	struct rp_id_order stack_ids, label_ids;
	bool flushed_types;		/* V6: a sequence point of the stream removed all types */
	bool flushed_threads;		/* likewise, or two rows had the same index */
	uint64_t missed_event_bytes;	/* of the last damaged block of events, since then */
	bool missed_block;		/* one, since all thread rows were removed */
	/* V6: rows that were declared before this gap may have been removed since; 0: none. */
	uint32_t suspect_gap;
	uint64_t suspect_lost;		/* of `lost_events`, of capture threads in suspect rows */
};

/*
 * Find the next block that has no contradiction, and skip damage before it.
 *
 * Return: true: the reader can take the block at the current offset; false: an error or the end,
 * which is recorded.
 */
bool rp_reader_find_block(struct rp_reader *reader);

/* Record a damaged part of the stream. `reason` is a constant. */
void rp_reader_add_damage(struct rp_reader *reader, uint64_t offset, uint64_t bytes,
			  const char *reason);

/*
 * Forget what a damaged part of the stream may have changed.
 * @bytes: the size of that part.
 */
void rp_reader_note_missed(struct rp_reader *reader, enum rp_damage_scope scope, uint64_t bytes);

/*
 * Check that the damaged part before this event was a block of events and nothing else: the block
 * had space for all events whose numbers are missing.
 * @last: the number of the last event of the same capture thread before the damage.
 */
void rp_reader_check_missed(struct rp_reader *reader, uint32_t last);

/*
 * Compare a block's declarations with those that the reader has, before it takes the block, and
 * remove those that the block contradicts.
 *
 * Return: NULL, or what is wrong with the block, so that the reader must skip it.
 */
const char *rp_reader_check_declared(struct rp_reader *reader, enum rp_block_kind kind,
				     struct rp_cursor content);

/* Count an event whose type, thread or label list is unknown because of damage. */
void rp_reader_lose_event(struct rp_reader *reader, uint64_t at, const char *reason);

/* Return what is unknown of an event: its type, a thread or its label list; NULL: nothing. */
const char *rp_reader_find_unknown(const void *reader, const struct rp_wire_event *event);

/*
 * Whether the rows of an event's thread and capture thread are still those that the event means.
 * A row that was declared before damage may have been removed, and its index given to another
 * thread.
 */
bool rp_reader_are_rows_right(struct rp_reader *reader);

/* Note what a V6 sequence point removed. */
void rp_reader_note_flush(struct rp_reader *reader, uint32_t flags);

void rp_reader_resume_fini(struct rp_reader_resume *resume);

#endif
