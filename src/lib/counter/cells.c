/* SPDX-License-Identifier: MIT */
#include "counter/cells.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/atomic.h"

#define CELLS_PER_CHUNK (RP_CELL_ROW_BYTES / sizeof(uint64_t))

uint32_t rp_cell_rows;

static char *open_chunk;	/* cells are allocated from it until it is full */
static size_t open_used;

/* Freed cells: a stack that grows by doubling. */
static char **returned;
static size_t returned_count, returned_capacity;

static size_t chunk_bytes(void)
{
	return (size_t)rp_cell_row_count() << RP_CELL_SHIFT;
}

int rp_chunk_get(char **ret_chunk)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	void *chunk;

	if (rp_cell_rows == 0)
		rp_store_relaxed(&rp_cell_rows, cpus > 0 ? (uint32_t)cpus : 1);
	chunk = mmap(NULL, chunk_bytes(), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (chunk == MAP_FAILED)
		return -ENOMEM;
	*ret_chunk = chunk;
	return 0;
}

void rp_chunk_put(char *chunk)
{
	munmap(chunk, chunk_bytes());
}

int rp_cell_get(char **ret_cell)
{
	int ret;

	if (returned_count) {
		*ret_cell = returned[--returned_count];
		return 0;
	}
	if (!open_chunk || open_used == CELLS_PER_CHUNK) {
		ret = rp_chunk_get(&open_chunk);
		if (ret != 0)
			return ret;
		open_used = 0;
	}
	*ret_cell = open_chunk + open_used++ * sizeof(uint64_t);
	return 0;
}

void rp_cell_put(char *cell)
{
	char **grown;

	for (uint32_t row = 0; row < rp_cell_row_count(); row++) {
		uint64_t *word = (uint64_t *)rp_cell_row(cell, row);

		/* A write would allocate memory for a row that has none. */
		if (rp_load_relaxed(word) != 0)
			rp_store_relaxed(word, 0);
	}
	grown = rp_array_reserve(returned, returned_count, &returned_capacity, 1, sizeof(*grown));
	if (!grown)
		return;	/* the cell of eight bytes is leaked */
	returned = grown;
	returned[returned_count++] = cell;
}

uint64_t rp_cell_sum(char *cell)
{
	uint64_t sum = 0;

	for (uint32_t row = 0; row < rp_cell_row_count(); row++)
		sum += rp_load_relaxed((uint64_t *)rp_cell_row(cell, row));
	return sum;
}
