/* SPDX-License-Identifier: MIT */
/* The last word of each counter, in the order of provider, name and tags. */
#ifndef RP_TOOL_COUNTER_BOARD_H
#define RP_TOOL_COUNTER_BOARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "tool/counter_sample.h"

/* A hostile or careless process may not fill our memory. */
#define RP_COUNTER_ROWS_MAX 20000u

struct rp_counter_row {
	struct rp_counter_sample last;
	/* RATE and SPREAD: since the counter was made where that is told, else since we look. */
	double total;
	uint64_t total_count;
	uint64_t words;			/* how often it was told */
	bool is_shown;
};

struct rp_counter_board {
	pthread_mutex_t lock;
	void *rows;			/* of tsearch(3) */
	void *claimed;			/* providers with instruments */
	size_t row_count;
	size_t event_counters;		/* rows of those, not of instruments */
	bool is_enumerated;
	bool is_full;			/* a row found no place */
};

void rp_counter_board_init(struct rp_counter_board *board);
void rp_counter_board_fini(struct rp_counter_board *board);

/*
 * Takes a sample in. A counter of ringpipe, and of some .NET libraries, is told in both ways: a
 * provider that has instruments is shown by those. So the first word of an EventCounter is held
 * back while it is not known which providers have.
 *
 * Return: whether the sample is to be shown.
 */
bool rp_counter_board_take(struct rp_counter_board *board, const struct rp_counter_sample *sample);

/* From here on, providers without instruments have none. */
void rp_counter_board_enumerated(struct rp_counter_board *board);

/* Calls `visit` for each row that is shown, in order, with the lock held. */
void rp_counter_board_walk(struct rp_counter_board *board,
			   void (*visit)(const struct rp_counter_row *row, void *data), void *data);

#endif
