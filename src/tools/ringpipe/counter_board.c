/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/ringpipe/counter_board.h"

static int compare_rows(const void *a, const void *b)
{
	const struct rp_counter_sample *left = a, *right = b;
	int order = strcmp(left->provider, right->provider);

	if (order == 0)
		order = strcmp(left->name, right->name);
	return order ? order : strcmp(left->tags, right->tags);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* An instrument that the process announced before its first value. */
struct rp_counter_instrument {
	char *provider;
	char *name;
	char *display;
};

static int compare_instruments(const void *a, const void *b)
{
	const struct rp_counter_instrument *left = a, *right = b;
	int order = strcmp(left->provider, right->provider);

	return order ? order : strcmp(left->name, right->name);
}

static void free_instrument(void *node)
{
	struct rp_counter_instrument *instrument = node;

	free(instrument->provider);
	free(instrument->name);
	free(instrument->display);
	free(instrument);
}

void rp_counter_board_init(struct rp_counter_board *board)
{
	memset(board, 0, sizeof(*board));
	pthread_mutex_init(&board->lock, NULL);
}

void rp_counter_board_fini(struct rp_counter_board *board)
{
	tdestroy(board->rows, free);
	tdestroy(board->claimed, free);
	tdestroy(board->instruments, free_instrument);
	pthread_mutex_destroy(&board->lock);
}

struct claim {
	const char *provider;
	struct rp_counter_row *rows[64];
	size_t count;
};

static void find_event_counters(const void *node, VISIT visit, void *data)
{
	struct rp_counter_row *row = *(struct rp_counter_row *const *)node;
	struct claim *claim = data;

	if ((visit == postorder || visit == leaf) && !row->last.is_instrument &&
	    claim->count < sizeof(claim->rows) / sizeof(claim->rows[0]) &&
	    strcmp(row->last.provider, claim->provider) == 0)
		claim->rows[claim->count++] = row;
}

/* Removes the provider's EventCounter rows once the provider has instruments. */
static void claim_provider(struct rp_counter_board *board, const char *provider)
{
	struct claim claim = { .provider = provider };
	char *copy;

	if (tfind(provider, &board->claimed, compare_texts))
		return;
	copy = strdup(provider);
	if (!copy || !tsearch(copy, &board->claimed, compare_texts)) {
		free(copy);
		return;
	}
	/*
	 * This walk happens only while rows of EventCounters exist, not for thousands of providers.
	 */
	claim.count = board->event_counters;
	while (claim.count > 0) {
		claim.count = 0;
		twalk_r(board->rows, find_event_counters, &claim);
		for (size_t i = 0; i < claim.count; i++) {
			tdelete(claim.rows[i], &board->rows, compare_rows);
			free(claim.rows[i]);
			board->row_count--;
			board->event_counters--;
		}
	}
}

/* If an instrument is announced repeatedly, the first announcement is used. */
static void add_instrument(struct rp_counter_board *board, const struct rp_counter_sample *sample)
{
	struct rp_counter_instrument key = { (char *)sample->provider, (char *)sample->name, NULL };
	struct rp_counter_instrument *copy;

	if (board->instrument_count >= RP_COUNTER_ROWS_MAX ||
	    tfind(&key, &board->instruments, compare_instruments))
		return;
	copy = calloc(1, sizeof(*copy));
	if (!copy)
		return;
	copy->provider = strdup(sample->provider);
	copy->name = strdup(sample->name);
	copy->display = strdup(sample->display);
	if (!copy->provider || !copy->name || !copy->display ||
	    !tsearch(copy, &board->instruments, compare_instruments))
		free_instrument(copy);
	else
		board->instrument_count++;
}

/*
 * Record that a provider has an instrument. The board removes the provider's EventCounters, and
 * drops their samples from then on. The instrument's later samples get its display name.
 */
static void take_instrument(struct rp_counter_board *board,
			    const struct rp_counter_sample *instrument)
{
	pthread_mutex_lock(&board->lock);
	/*
	 * The number of claims needs no limit: it never exceeds the limited number of instruments.
	 */
	if (board->instrument_count < RP_COUNTER_ROWS_MAX)
		claim_provider(board, instrument->provider);
	add_instrument(board, instrument);
	pthread_mutex_unlock(&board->lock);
}

/* A value of an instrument arrives without a display name, so the announcement's name is used. */
static void set_display(const struct rp_counter_board *board, struct rp_counter_sample *sample)
{
	const struct rp_counter_instrument key = { sample->provider, sample->name, NULL };
	struct rp_counter_instrument **found = sample->is_instrument ?
		tfind(&key, &board->instruments, compare_instruments) : NULL;

	if (found)
		snprintf(sample->display, sizeof(sample->display), "%s", (*found)->display);
}

/* Return: the row; NULL if the board is full or out of memory. */
static struct rp_counter_row *find_row(struct rp_counter_board *board,
				       const struct rp_counter_sample *sample)
{
	struct rp_counter_row **found = tfind(sample, &board->rows, compare_rows);
	struct rp_counter_row *row;

	if (found)
		return *found;
	row = board->row_count < RP_COUNTER_ROWS_MAX ? calloc(1, sizeof(*row)) : NULL;
	if (row) {
		row->last = *sample;
		if (!tsearch(row, &board->rows, compare_rows)) {
			free(row);
			row = NULL;
		}
	}
	if (row) {
		board->row_count++;
		board->event_counters += !sample->is_instrument;
	} else {
		board->is_full = true;
	}
	return row;
}

static void add_up(struct rp_counter_row *row, const struct rp_counter_sample *sample)
{
	if (sample->form == RP_COUNTER_SPREAD && !row->has_total) {
		row->total += sample->sum;
		row->total_count += sample->count;
	} else if (sample->form == RP_COUNTER_RATE && !isnan(sample->total)) {
		row->total = sample->total;
	} else if (sample->form == RP_COUNTER_RATE) {
		row->total += sample->value;
	}
}

/* A total arrives before the value of its interval and does not change the quantiles. */
static void set_total(struct rp_counter_row *row, const struct rp_counter_sample *sample)
{
	row->has_total = true;
	row->total = sample->sum;
	row->total_count = sample->count;
}

static bool take(struct rp_counter_board *board, const struct rp_counter_sample *sample)
{
	struct rp_counter_row *row;

	if (!sample->is_instrument && tfind(sample->provider, &board->claimed, compare_texts))
		return false;
	row = find_row(board, sample);
	if (!row)
		return false;
	/* The row held the other kind of counter before, and its sums do not apply. */
	if (row->last.is_instrument != sample->is_instrument) {
		*row = (struct rp_counter_row){ .last = *sample };
		board->event_counters--;
	}
	/* Only with a row, so that there are never more claims than rows. */
	if (sample->is_instrument)
		claim_provider(board, sample->provider);
	row->is_shown = sample->is_instrument || board->is_enumerated || row->words > 0;
	row->words++;
	if (sample->is_total) {
		set_total(row, sample);
		set_display(board, &row->last);
		return row->is_shown;
	}
	row->last = *sample;
	set_display(board, &row->last);
	add_up(row, sample);
	return row->is_shown;
}

bool rp_counter_board_take(struct rp_counter_board *board, const struct rp_counter_sample *sample)
{
	bool is_shown;

	pthread_mutex_lock(&board->lock);
	is_shown = take(board, sample);
	pthread_mutex_unlock(&board->lock);
	return is_shown;
}

void rp_counter_board_enumerated(struct rp_counter_board *board)
{
	pthread_mutex_lock(&board->lock);
	board->is_enumerated = true;
	pthread_mutex_unlock(&board->lock);
}

void rp_counter_board_announce(struct rp_counter_board *board, enum rp_counter_word word,
			       const struct rp_counter_sample *sample)
{
	if (word == RP_COUNTER_INSTRUMENT)
		take_instrument(board, sample);
	else if (word == RP_COUNTER_ENUMERATED)
		rp_counter_board_enumerated(board);
}

struct board_walk {
	void (*visit)(const struct rp_counter_row *row, void *data);
	void *data;
};

static void visit_row(const void *node, VISIT visit, void *data)
{
	const struct rp_counter_row *row = *(struct rp_counter_row *const *)node;
	const struct board_walk *walk = data;

	if ((visit == postorder || visit == leaf) && row->is_shown)
		walk->visit(row, walk->data);
}

void rp_counter_board_walk(struct rp_counter_board *board,
			   void (*visit)(const struct rp_counter_row *row, void *data), void *data)
{
	struct board_walk walk = { visit, data };

	pthread_mutex_lock(&board->lock);
	twalk_r(board->rows, visit_row, &walk);
	pthread_mutex_unlock(&board->lock);
}

struct row_copies {
	struct rp_counter_row *rows;
	size_t count, capacity;
	bool failed;
};

static void copy_row(const struct rp_counter_row *row, void *data)
{
	struct row_copies *copies = data;
	struct rp_counter_row *grown = rp_array_reserve(copies->rows, copies->count,
							&copies->capacity, 1, sizeof(*grown));

	copies->failed |= !grown;
	if (!grown)
		return;
	copies->rows = grown;
	grown[copies->count++] = *row;
}

int rp_counter_board_copy(struct rp_counter_board *board, struct rp_counter_row **ret_rows,
			  size_t *ret_count)
{
	struct row_copies copies = { 0 };

	rp_counter_board_walk(board, copy_row, &copies);
	*ret_rows = copies.rows;
	*ret_count = copies.count;
	return copies.failed ? -ENOMEM : 0;
}
