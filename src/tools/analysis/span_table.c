/* SPDX-License-Identifier: MIT */
#include "tools/analysis/span_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Return: the row of the name; NULL: no memory. */
static struct rp_span_row *row_of(struct rp_span_table *table, const struct rp_span_name *name)
{
	struct rp_span_row *grown;

	if (name->index >= table->count) {
		const size_t missing = name->index + 1 - table->count;

		grown = rp_array_reserve(table->rows, table->count, &table->capacity, missing,
					 sizeof(*grown));
		if (!grown)
			return NULL;
		table->rows = grown;
		memset(&grown[table->count], 0, missing * sizeof(*grown));
		table->count = name->index + 1;
	}
	table->rows[name->index].name = name;
	return &table->rows[name->index];
}

int rp_span_table_add(struct rp_span_table *table, const struct rp_span_name *name,
		      uint64_t duration_ns, bool has_error)
{
	struct rp_span_row *row = row_of(table, name);

	if (!row || rp_latency_add(&row->latency, duration_ns) < 0)
		return -ENOMEM;
	row->errors += has_error;
	return 0;
}

int rp_span_table_add_open(struct rp_span_table *table, const struct rp_span_name *name)
{
	struct rp_span_row *row = row_of(table, name);

	if (!row)
		return -ENOMEM;
	row->open++;
	return 0;
}

static int compare_rows(const void *left, const void *right)
{
	const struct rp_span_row *a = left, *b = right;
	const uint64_t first = a->latency.total_ns, second = b->latency.total_ns;

	if (!a->name || !b->name)
		return !a->name - !b->name;
	return first != second ? (first < second) - (first > second) :
	       (a->name->index > b->name->index) - (a->name->index < b->name->index);
}

void rp_span_table_sort(struct rp_span_table *table)
{
	if (table->count)
		qsort(table->rows, table->count, sizeof(*table->rows), compare_rows);
}

void rp_span_table_fini(struct rp_span_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		rp_latency_fini(&table->rows[i].latency);
	free(table->rows);
	*table = (struct rp_span_table){ 0 };
}
