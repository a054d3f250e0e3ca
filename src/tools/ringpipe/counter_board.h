/* SPDX-License-Identifier: MIT */
/* The last word of each counter, in the order of provider, name and tags. */
#ifndef RP_TOOL_COUNTER_BOARD_H
#define RP_TOOL_COUNTER_BOARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/ringpipe/counter_sample.h"

/* A hostile or careless process may not fill our memory. */
#define RP_COUNTER_ROWS_MAX 20000u

struct rp_counter_row {
	struct rp_counter_sample last;
	/*
	 * RATE and SPREAD: since the counter was made where the process reports that, as ringpipe's
	 * do; else since we look, less intervals that were dropped.
	 */
	double total;
	uint64_t total_count;
	bool has_total;			/* SPREAD: the process reports it */
	uint64_t words;			/* number of samples */
	bool is_shown;
};

struct rp_counter_board {
	pthread_mutex_t lock;
	void *rows;			/* of tsearch(3) */
	void *claimed;			/* providers with instruments */
	void *instruments;		/* struct rp_counter_instrument */
	size_t instrument_count;
	size_t row_count;
	size_t event_counters;		/* rows of those, not of instruments */
	bool is_enumerated;
	bool is_full;			/* a row found no place */
};

void rp_counter_board_init(struct rp_counter_board *board);
void rp_counter_board_fini(struct rp_counter_board *board);

/*
 * Adds a sample. Counters of ringpipe, and of some .NET libraries, come in both forms; a provider
 * with instruments is shown by those. So the first sample of an EventCounter is held back until it
 * is known which providers have instruments.
 *
 * Return: whether the sample is to be shown.
 */
bool rp_counter_board_take(struct rp_counter_board *board, const struct rp_counter_sample *sample);

/*
 * Take in that a provider has an instrument: from here on, its EventCounters are not shown. Its
 * display name goes to the rows of the instrument.
 */
void rp_counter_board_instrument(struct rp_counter_board *board,
				 const struct rp_counter_sample *instrument);

/* From here on, providers without instruments have none. */
void rp_counter_board_enumerated(struct rp_counter_board *board);

/* Calls `visit` for each row that is shown, in order, with the lock held. */
void rp_counter_board_walk(struct rp_counter_board *board,
			   void (*visit)(const struct rp_counter_row *row, void *data), void *data);

#endif
