/* SPDX-License-Identifier: MIT */
/* The latest sample of each counter, sorted by provider, name and tags. */
#ifndef RP_TOOL_COUNTER_BOARD_H
#define RP_TOOL_COUNTER_BOARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/trace/counter_sample.h"

/* Limits the memory that a hostile or faulty process can make this command use. */
#define RP_COUNTER_ROWS_MAX 20000u

struct rp_counter_row {
	struct rp_counter_sample last;
	/*
	 * RATE and SPREAD: the total since the counter was created, if the process reports it, as
	 * ringpipe does; else the total since this command started, without dropped intervals.
	 */
	double total;
	uint64_t total_count;
	bool has_total;			/* SPREAD: the process reports totals */
	uint64_t words;			/* number of samples */
	bool is_shown;
};

struct rp_counter_board {
	pthread_mutex_t lock;
	void *rows;			/* a tree of tsearch(3) */
	void *claimed;			/* providers with instruments */
	void *instruments;		/* struct rp_counter_instrument */
	size_t instrument_count;
	size_t row_count;
	size_t event_counters;		/* rows of EventCounters */
	bool is_enumerated;
	bool is_full;			/* a row was not added, for lack of space */
};

void rp_counter_board_init(struct rp_counter_board *board);
void rp_counter_board_fini(struct rp_counter_board *board);

/*
 * Add a sample. Counters of ringpipe, and of some .NET libraries, arrive both as EventCounters and
 * as instruments. If a provider has instruments, the board shows the instruments and drops the
 * provider's EventCounters. An EventCounter may arrive before the instruments of its provider.
 * Until rp_counter_board_enumerated(), the board therefore hides the first sample of each
 * EventCounter, and shows the counter from its second sample on.
 *
 * Return: whether to show the sample; false also if the board is full or out of memory.
 */
bool rp_counter_board_take(struct rp_counter_board *board, const struct rp_counter_sample *sample);

/*
 * Record that the process has listed all its instruments. From then on, the board shows each sample
 * of an EventCounter whose provider has no known instrument.
 */
void rp_counter_board_enumerated(struct rp_counter_board *board);

/* Record what a word other than a sample says: one of both functions above, or nothing. */
void rp_counter_board_announce(struct rp_counter_board *board, enum rp_counter_word word,
			       const struct rp_counter_sample *sample);

/* Call `visit` for each row that is shown, in the order of the board, with the lock held. */
void rp_counter_board_walk(struct rp_counter_board *board,
			   void (*visit)(const struct rp_counter_row *row, void *data), void *data);

/*
 * Copy the rows that are shown, in the order of the board. The texts belong to the board.
 * @ret_rows: for free(), whatever the result
 * Return: 0; -ENOMEM.
 */
int rp_counter_board_copy(struct rp_counter_board *board, struct rp_counter_row **ret_rows,
			  size_t *ret_count);

#endif
