/* SPDX-License-Identifier: MIT */
#include "tools/cli/rows.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/cli/display_text.h"

void rp_csv_put(FILE *stream, const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, stream);
		return;
	}
	putc('"', stream);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', stream);
		putc(*text, stream);
	}
	putc('"', stream);
}

static bool is_shown(const struct rp_rows *rows, size_t column)
{
	return rows->format == RP_FORMAT_CSV || rows->columns[column].title;
}

static const char *heading(const struct rp_rows *rows, size_t column)
{
	return rows->format == RP_FORMAT_CSV ? rows->columns[column].key :
	       rows->columns[column].title;
}

static size_t shown_columns(const struct rp_rows *rows)
{
	size_t count = 0;

	for (size_t i = 0; i < rows->column_count; i++)
		count += is_shown(rows, i);
	return count;
}

/* No padding follows the last column. */
static void put_cell(const struct rp_rows *rows, const char *text, size_t width, bool is_right,
		     bool is_last)
{
	const size_t used = rp_text_width(text);
	const int blanks = used < width ? (int)(width - used) : 0;

	if (rows->format == RP_FORMAT_CSV)
		rp_csv_put(rows->stream, text);
	else if (is_right)
		fprintf(rows->stream, "%*s%s", blanks, "", text);
	else
		fprintf(rows->stream, "%s%*s", text, is_last ? 0 : blanks, "");
	fputs(is_last ? "\n" : rows->format == RP_FORMAT_CSV ? "," : "  ", rows->stream);
}

/* Prints one line: the headings if `cells` is NULL. */
static void put_line(const struct rp_rows *rows, char *const *cells, const size_t *widths)
{
	const size_t shown = shown_columns(rows);
	size_t cell = 0;

	for (size_t i = 0; i < rows->column_count; i++) {
		if (!is_shown(rows, i))
			continue;
		put_cell(rows, cells ? cells[cell] : heading(rows, i), widths[cell],
			 rows->columns[i].is_right, cell + 1 == shown);
		cell++;
	}
}

static void measure(const struct rp_rows *rows, size_t widths[RP_ROWS_COLUMNS_MAX])
{
	const size_t shown = shown_columns(rows);
	size_t cell = 0;

	for (size_t i = 0; i < rows->column_count; i++) {
		size_t title = is_shown(rows, i) ? rp_text_width(heading(rows, i)) : 0;

		if (is_shown(rows, i))
			widths[cell++] = title > rows->columns[i].width ? title :
					 rows->columns[i].width;
	}
	for (size_t i = 0; i < rows->cell_count; i++) {
		size_t width = rp_text_width(rows->cells[i]);

		if (width > widths[i % shown])
			widths[i % shown] = width;
	}
}

static void put_cells(const struct rp_rows *rows, bool with_headings)
{
	const size_t shown = shown_columns(rows);
	size_t widths[RP_ROWS_COLUMNS_MAX] = { 0 };

	measure(rows, widths);
	if (with_headings)
		put_line(rows, NULL, widths);
	for (size_t i = 0; i + shown <= rows->cell_count; i += shown)
		put_line(rows, rows->cells + i, widths);
}

static void forget_cells(struct rp_rows *rows)
{
	for (size_t i = 0; i < rows->cell_count; i++)
		free(rows->cells[i]);
	rows->cell_count = 0;
}

void rp_rows_init(struct rp_rows *rows, enum rp_format format, const struct rp_column *columns,
		  size_t column_count)
{
	assert(column_count <= RP_ROWS_COLUMNS_MAX);
	*rows = (struct rp_rows){
		.format = format,
		.columns = columns,
		.column_count = column_count,
		.stream = stdout,
	};
	if (format == RP_FORMAT_JSON)
		rows->array = json_object_new_array();
}

void rp_rows_init_live(struct rp_rows *rows, enum rp_format format,
		       const struct rp_column *columns, size_t column_count, FILE *stream)
{
	rp_rows_init(rows, format, columns, column_count);
	rows->stream = stream;
	rows->is_live = true;
	if (format != RP_FORMAT_JSON)
		put_cells(rows, true);
}

void rp_rows_fini(struct rp_rows *rows)
{
	forget_cells(rows);
	free(rows->cells);
	json_object_put(rows->row);
	json_object_put(rows->array);
}

static void add_cell(struct rp_rows *rows, const char *text)
{
	char *clean = rp_text_clean(text, true);

	if (clean && rows->cell_count == rows->cell_space) {
		size_t space = rows->cell_space ? rows->cell_space * 2 : 64;
		char **cells = realloc(rows->cells, space * sizeof(*cells));

		if (cells) {
			rows->cells = cells;
			rows->cell_space = space;
		}
	}
	if (!clean || rows->cell_count == rows->cell_space) {
		free(clean);
		rows->failed = true;
		return;
	}
	rows->cells[rows->cell_count++] = clean;
}

static const char *text_of(const struct rp_rows *rows, struct json_object *value)
{
	if (!value)
		return rows->format == RP_FORMAT_CSV ? "" : "-";
	if (json_object_is_type(value, json_type_string))
		return json_object_get_string(value);
	return json_object_to_json_string_ext(value, JSON_C_TO_STRING_NOSLASHESCAPE);
}

static void add_member(struct rp_rows *rows, struct json_object *value)
{
	const struct rp_column *column = &rows->columns[rows->at];

	if (rows->at == 0)
		rows->row = json_object_new_object();
	if (value || !column->is_optional)
		json_object_object_add(rows->row, column->key, value);
}

static void end_row(struct rp_rows *rows)
{
	if (rows->format == RP_FORMAT_JSON && !rows->is_live) {
		json_object_array_add(rows->array, rows->row);
		rows->row = NULL;
	} else if (rows->format == RP_FORMAT_JSON) {
		rp_json_put(rows->stream, rows->row, JSON_C_TO_STRING_NOSLASHESCAPE);
		putc('\n', rows->stream);
		json_object_put(rows->row);
		rows->row = NULL;
	} else if (rows->is_live) {
		put_cells(rows, false);
		forget_cells(rows);
	}
}

void rp_rows_add(struct rp_rows *rows, struct json_object *value, const char *text)
{
	if (rows->format == RP_FORMAT_JSON) {
		add_member(rows, value);
	} else {
		if (is_shown(rows, rows->at))
			add_cell(rows, text && rows->format == RP_FORMAT_TEXT ? text :
				 text_of(rows, value));
		json_object_put(value);
	}
	if (++rows->at == rows->column_count) {
		rows->at = 0;
		end_row(rows);
	}
}

void rp_rows_add_string(struct rp_rows *rows, const char *value)
{
	rp_rows_add(rows, rp_json_string(value), NULL);
}

void rp_rows_add_u64(struct rp_rows *rows, uint64_t value)
{
	rp_rows_add(rows, json_object_new_uint64(value), NULL);
}

void rp_rows_add_duration(struct rp_rows *rows, uint64_t ns, bool is_known)
{
	char text[RP_TEXT_MAX];

	if (is_known)
		rp_rows_add(rows, json_object_new_uint64(ns), rp_text_short_time(ns, text));
	else
		rp_rows_add(rows, NULL, NULL);
}

void rp_rows_addf(struct rp_rows *rows, struct json_object *value, const char *format, ...)
{
	char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	rows->failed |= !text;
	rp_rows_add(rows, value, text);
	free(text);
}

struct json_object *rp_rows_take_json(struct rp_rows *rows)
{
	struct json_object *array = rows->array;

	rows->array = NULL;
	return array;
}

int rp_rows_print(struct rp_rows *rows)
{
	if (rows->failed || (rows->format == RP_FORMAT_JSON && !rows->array)) {
		rp_tool_error("out of memory");
		return RP_EXIT_FAILURE;
	}
	if (rows->format == RP_FORMAT_JSON)
		return rp_json_print(rp_rows_take_json(rows));
	put_cells(rows, true);
	return RP_EXIT_OK;
}
