/* SPDX-License-Identifier: MIT */
/* The rows that a command prints, as text in columns, JSON or CSV (--format). */
#ifndef RP_TOOL_ROWS_H
#define RP_TOOL_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <json.h>

#include "tools/cli/tool.h"

#define RP_ROWS_COLUMNS_MAX 16

struct rp_column {
	const char *key;		/* in JSON, and the heading in CSV */
	const char *title;		/* the heading in text; NULL: text leaves the column out */
	size_t width;			/* minimum width in text */
	bool is_right;			/* in text, aligned at the right */
	bool is_optional;		/* JSON leaves the key out where the value is null */
};

struct rp_rows {
	enum rp_format format;
	const struct rp_column *columns;
	size_t column_count;
	FILE *stream;
	bool is_live;			/* each row is written as soon as it is complete */
	bool failed;			/* no memory: rp_rows_print() reports it */
	size_t at;			/* index of the column that the next value belongs to */
	size_t cell_count;		/* text and CSV: strings without control characters */
	size_t cell_space;
	char **cells;
	struct json_object *array;	/* JSON */
	struct json_object *row;	/* being built */
};

/* Prepare rows for standard output, of at most RP_ROWS_COLUMNS_MAX columns. */
void rp_rows_init(struct rp_rows *rows, enum rp_format format, const struct rp_column *columns,
		  size_t column_count);
/*
 * Prepare rows that are written to `stream` one by one, each as one line in JSON. The function
 * writes the heading of text and CSV.
 */
void rp_rows_init_live(struct rp_rows *rows, enum rp_format format,
		       const struct rp_column *columns, size_t column_count, FILE *stream);
/* Free the rows. */
void rp_rows_fini(struct rp_rows *rows);

/*
 * Add the value of the next column; the rows then own it. NULL is null, an empty field in CSV and
 * "-" in text. CSV shows lists and objects as JSON. Text shows `text`, unless that is NULL.
 */
void rp_rows_add(struct rp_rows *rows, struct json_object *value, const char *text);
/* Add a string; NULL is null. */
void rp_rows_add_string(struct rp_rows *rows, const char *value);
void rp_rows_add_u64(struct rp_rows *rows, uint64_t value);
/* Add a duration, or null if it is not known. */
void rp_rows_add_duration(struct rp_rows *rows, uint64_t ns, bool is_known);
/* Add a value; text shows it formatted by `format`. */
void rp_rows_addf(struct rp_rows *rows, struct json_object *value, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Print all rows. Return: the exit status; RP_EXIT_FAILURE after an error line. */
int rp_rows_print(struct rp_rows *rows);
/* Return: the rows of format JSON as an array, which the caller releases. */
struct json_object *rp_rows_take_json(struct rp_rows *rows);

/* Write one field of CSV, in quotes where RFC 4180 requires them. */
void rp_csv_put(FILE *stream, const char *text);

#endif
