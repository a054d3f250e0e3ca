/* SPDX-License-Identifier: MIT */
/*
 * Cells: eight bytes for each processor, so that counting shares no cache line.
 *
 * A chunk is a row of 64 KB for each concurrency id, then RP_CELL_SPARE rows for threads without
 * rseq. A cell has the same offset in each row; its address is the one in the first row. Rows cost
 * memory once they are written.
 *
 *	row r of a cell = cell + (r << RP_CELL_SHIFT)
 *
 * A row of a concurrency id is written only inside rseq sections of that id; a spare row only by
 * atomic operations. Readers load all rows, relaxed: a sum is exact once writers are done, and
 * never decreases before.
 *
 * A histogram has a whole chunk: the head below, then buckets (buckets.h). Smallest and largest
 * values are kept as the bits of the double, which for numbers of 0 and more are in the order of
 * the numbers; 0 means none yet, so each is stored in a form that is never 0.
 */
#ifndef RP_COUNTER_CELLS_H
#define RP_COUNTER_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RP_CELL_SHIFT 16
#define RP_CELL_ROW_BYTES (1u << RP_CELL_SHIFT)
#define RP_CELL_SPARE 16u	/* rows for threads without rseq; a power of two */

struct rp_histogram_header {
	uint64_t sum_bits;	/* a double */
	uint64_t ever_max;	/* bits + 1 */
	uint64_t ever_min;	/* ~bits */
	uint64_t max, min;	/* the same, since the last exchange by a reader */
};

/* Rows of concurrency ids; set with the first cell. */
extern uint32_t rp_cell_rows;

/* One cell, all rows zero. Return: 0 or -ENOMEM. With the counters' lock. */
int rp_cell_get(char **ret_cell);
void rp_cell_put(char *cell);

/* A chunk for a histogram. */
int rp_chunk_get(char **ret_chunk);
void rp_chunk_put(char *chunk);

static inline char *rp_cell_row(char *cell, uint32_t row)
{
	return cell + ((size_t)row << RP_CELL_SHIFT);
}

static inline uint32_t rp_cell_row_count(void)
{
	return rp_cell_rows + RP_CELL_SPARE;
}

/* The sum of whole numbers over all rows. */
uint64_t rp_cell_sum(char *cell);

#endif
