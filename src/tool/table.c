/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/table.h"
#include "tool/text.h"

void rp_table_init(struct rp_table *table, const char *const *titles, const char *alignment)
{
	*table = (struct rp_table){
		.titles = titles,
		.alignment = alignment,
		.columns = strlen(alignment),
	};
}

void rp_table_fini(struct rp_table *table)
{
	for (size_t i = 0; i < table->cell_count; i++)
		free(table->cells[i]);
	free(table->cells);
}

void rp_table_add(struct rp_table *table, const char *text)
{
	char *clean = rp_text_clean(text, true);

	if (clean && table->cell_count == table->cell_room) {
		size_t room = table->cell_room ? table->cell_room * 2 : 64;
		char **cells = realloc(table->cells, room * sizeof(*cells));

		if (cells) {
			table->cells = cells;
			table->cell_room = room;
		}
	}
	if (!clean || table->cell_count == table->cell_room) {
		free(clean);
		table->failed = true;
		return;
	}
	table->cells[table->cell_count++] = clean;
}

void rp_table_addf(struct rp_table *table, const char *format, ...)
{
	char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	if (!text)
		table->failed = true;
	else
		rp_table_add(table, text);
	free(text);
}

/* The last column gets no blanks behind it. */
static void print_cell(const struct rp_table *table, size_t column, const char *text, size_t width)
{
	int blanks = (int)(width - rp_text_width(text));

	if (table->alignment[column] == 'r')
		printf("%*s%s", blanks, "", text);
	else if (column + 1 < table->columns)
		printf("%s%*s", text, blanks, "");
	else
		fputs(text, stdout);
	fputs(column + 1 < table->columns ? "  " : "\n", stdout);
}

int rp_table_print(const struct rp_table *table)
{
	size_t widths[RP_TABLE_COLUMNS_MAX];

	if (table->failed)
		return -ENOMEM;
	for (size_t column = 0; column < table->columns; column++) {
		widths[column] = rp_text_width(table->titles[column]);
		for (size_t i = column; i < table->cell_count; i += table->columns) {
			size_t width = rp_text_width(table->cells[i]);

			if (width > widths[column])
				widths[column] = width;
		}
	}
	for (size_t column = 0; column < table->columns; column++)
		print_cell(table, column, table->titles[column], widths[column]);
	for (size_t i = 0; i < table->cell_count; i++)
		print_cell(table, i % table->columns, table->cells[i], widths[i % table->columns]);
	return 0;
}
