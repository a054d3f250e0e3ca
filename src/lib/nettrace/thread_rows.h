/* SPDX-License-Identifier: MIT */
/* The threads that a V6 stream declares, by their indexes. */
#ifndef RP_NETTRACE_THREAD_ROWS_H
#define RP_NETTRACE_THREAD_ROWS_H

#include <stdbool.h>

#include "base/cursor.h"
#include "nettrace/outbuf.h"
#include "nettrace/thread_table.h"

struct rp_thread_row {
	uint64_t index;
	uint64_t process;	/* RP_THREAD_NO_PROCESS: the stream's */
	uint64_t thread;	/* the id in the system */
	char *name;		/* NULL: none */
	uint8_t *pairs;		/* the attributes with its keys and values, as in the block */
	uint32_t pair_bytes;
	uint32_t sequence;	/* of the last event, if the row is a capture thread; starts at 0 */
	bool wrote;
	uint32_t gap;		/* the number of the gap before `sequence` was read */
	uint32_t declared;	/* the number of the gap before the row */
};

#define RP_THREAD_NO_PROCESS UINT64_MAX

struct rp_thread_rows {
	struct rp_thread_table places;	/* index -> place in `rows`, plus 1 */
	struct rp_thread_row *rows;
	size_t count, capacity;
	uint32_t gap;		/* the number of the last gap in what is read of the stream */
	uint64_t next_index;	/* after the highest since all rows were removed */
	bool reuses_indexes;	/* an index was not above all earlier ones */
	bool has_unknown;	/* a row had an attribute of a later version */
};

/*
 * Add a row of a Thread block, without its size.
 *
 * Return: 0; -EBADMSG: damaged; -EEXIST: the index is taken; -E2BIG: the number of threads exceeds
 * the reader's limit; -ENOMEM.
 */
int rp_thread_rows_add(struct rp_thread_rows *rows, struct rp_cursor row);

/* Return: the row, valid until rows are added or removed; NULL: no such index. */
struct rp_thread_row *rp_thread_rows_find(const struct rp_thread_rows *rows, uint64_t index);

/* Remove a row, which exists. */
void rp_thread_rows_remove(struct rp_thread_rows *rows, struct rp_thread_row *row);

/* Remove all rows. Their memory stays for the next ones. */
void rp_thread_rows_clear(struct rp_thread_rows *rows);

void rp_thread_rows_fini(struct rp_thread_rows *rows);

/*
 * Append a row to the content of a Thread block: u16 size, index, process, thread, name, keys and
 * values.
 * @like: a row that has the name, cut to 32,767 bytes, and the keys and values, which are left out
 * if they do not fit; NULL: the row has none.
 *
 * Return: 0; -ENOMEM: nothing was appended.
 */
int rp_thread_row_put(struct rp_outbuf *rows, uint64_t index, uint64_t process, uint64_t thread,
		      const struct rp_thread_row *like);

/* Return: a hash of the row's name, keys and values; 0: it has none, or `row` is NULL. */
uint32_t rp_thread_row_hash(const struct rp_thread_row *row);

#endif
