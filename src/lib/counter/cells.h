/* SPDX-License-Identifier: MIT */
/*
 * Cells: eight bytes for each processor, so that updates share no cache line.
 *
 * A chunk has a row of 64 KB for each concurrency id, then RP_CELL_SPARE rows for threads without
 * rseq. A cell has the same offset in each row; its address is the one in the first row. A row
 * takes memory only after a thread has written to it.
 *
 *	row r of a cell = cell + (r << RP_CELL_SHIFT)
 *
 * A row of a concurrency id is written only inside rseq sections of that id. A spare row is written
 * only by atomic operations. Readers load all rows, relaxed: a sum is exact once all writers have
 * finished, and a sum of positive numbers never decreases before.
 *
 * A histogram has a whole chunk: the header below, then buckets (buckets.h). The smallest and the
 * largest value are stored as the bits of the double, whose order is the numbers' order for numbers
 * of 0 and more. Since 0 means "none yet", each is stored in a form that is never 0.
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
	uint64_t sum_bits;	/* sum of the values, a double */
	uint64_t ever_max;	/* bits + 1 */
	uint64_t ever_min;	/* ~bits */
	uint64_t max, min;	/* as above, since a reader last reset them */
};

/* Number of rows for concurrency ids; set when the first chunk is created. */
extern uint32_t rp_cell_rows;

/* Allocate a cell, zero in all rows. Return: 0 or -ENOMEM. The caller holds the counters' lock. */
int rp_cell_get(char **ret_cell);
void rp_cell_put(char *cell);

/* Allocate a chunk for a histogram. Return: 0 or -ENOMEM. */
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

/* The sum over all rows, for integers. */
uint64_t rp_cell_sum(char *cell);

#endif
