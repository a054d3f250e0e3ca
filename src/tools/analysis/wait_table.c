/* SPDX-License-Identifier: MIT */
#include "tools/analysis/wait_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "tools/analysis/call_parts.h"

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Compare all but the stack. */
static int compare_keys(const struct rp_wait_row *a, const struct rp_wait_row *b)
{
	int order = compare_numbers(a->process, b->process);

	if (!order)
		order = compare_numbers(a->thread, b->thread);
	if (!order)
		order = compare_numbers(a->waker_process, b->waker_process);
	if (!order)
		order = compare_numbers(a->waker_thread, b->waker_thread);
	if (!order)
		order = compare_numbers(a->address, b->address);
	if (!order)
		order = (int)a->kind - (int)b->kind;
	return order ? order : a->is_rest - b->is_rest;
}

static uint64_t hash_wait(const void *rows, uint32_t number)
{
	const struct rp_wait_row *wait = (const struct rp_wait_row *)rows + number;
	const uint64_t waiter = rp_call_hash(wait->process, wait->thread);
	const uint64_t waker = rp_call_hash(wait->waker_process, wait->waker_thread);

	const uint64_t kind = (uint64_t)wait->node << 3 | wait->kind;

	return rp_call_hash(rp_call_hash(waiter, waker), rp_call_hash(wait->address, kind));
}

static void count_wait(struct rp_wait_row *row, const struct rp_wait_row *wait)
{
	row->count++;
	if (__builtin_add_overflow(row->total_ns, wait->total_ns, &row->total_ns))
		row->total_ns = UINT64_MAX;
	if (wait->total_ns > row->max_ns)
		row->max_ns = wait->total_ns;
}

static int add_row(struct rp_wait_table *table, const struct rp_wait_row *wait)
{
	struct rp_wait_row *rows = rp_array_reserve(table->rows, table->count, &table->capacity, 1,
						sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	table->rows = rows;
	rows[table->count] = *wait;
	rows[table->count].count = rows[table->count].total_ns = rows[table->count].max_ns = 0;
	count_wait(&rows[table->count++], wait);
	return 0;
}

static int add_rest(struct rp_wait_table *table, const struct rp_wait_row *wait)
{
	const struct rp_wait_row rest = {
		.is_rest = true, .node = RP_CALL_NONE, .total_ns = wait->total_ns,
	};

	if (!table->rows[table->count - 1].is_rest)
		return add_row(table, &rest);
	count_wait(&table->rows[table->count - 1], wait);
	return 0;
}

int rp_wait_table_add(struct rp_wait_table *table, const struct rp_wait_row *wait)
{
	size_t at, mask;
	int ret = rp_call_index_reserve(&table->by_key, table->count, hash_wait, table->rows);

	if (ret)
		return ret;
	mask = table->by_key.capacity - 1;
	for (at = hash_wait(wait, 0) & mask; table->by_key.slots[at]; at = (at + 1) & mask) {
		struct rp_wait_row *row = &table->rows[table->by_key.slots[at] - 1];

		if (row->node == wait->node && compare_keys(row, wait) == 0) {
			count_wait(row, wait);
			return 0;
		}
	}
	if (table->count >= RP_WAITS_MAX)
		return add_rest(table, wait);
	ret = add_row(table, wait);
	if (ret == 0)
		table->by_key.slots[at] = (uint32_t)table->count;
	return ret;
}

/* Equal keys become neighbours, and the stack with most time comes first. */
static int by_key(const void *left, const void *right)
{
	const struct rp_wait_row *a = left, *b = right;
	int order = compare_keys(a, b);

	if (!order)
		order = compare_numbers(b->total_ns, a->total_ns);
	return order ? order : compare_numbers(a->node, b->node);
}

static int by_total(const void *left, const void *right)
{
	const struct rp_wait_row *a = left, *b = right;
	int order = compare_numbers(b->total_ns, a->total_ns);

	return order ? order : compare_keys(a, b);
}

void rp_wait_table_finish(struct rp_wait_table *table)
{
	struct rp_wait_row *rows = table->rows;
	size_t kept = 0;

	if (!table->count)
		return;
	qsort(rows, table->count, sizeof(*rows), by_key);
	for (size_t i = 0; i < table->count; i++) {
		struct rp_wait_row *row = kept ? &rows[kept - 1] : NULL;

		if (!row || compare_keys(row, &rows[i]) != 0) {
			rows[kept++] = rows[i];
			continue;
		}
		row->count += rows[i].count;
		if (__builtin_add_overflow(row->total_ns, rows[i].total_ns, &row->total_ns))
			row->total_ns = UINT64_MAX;
		if (rows[i].max_ns > row->max_ns)
			row->max_ns = rows[i].max_ns;
	}
	table->count = kept;
	qsort(rows, table->count, sizeof(*rows), by_total);
}

void rp_wait_table_fini(struct rp_wait_table *table)
{
	free(table->rows);
	free(table->by_key.slots);
	*table = (struct rp_wait_table){ 0 };
}
