/* SPDX-License-Identifier: MIT */
/*
 * Prints events. Text has the stack below each event; JSON has one line per
 * event; CSV has a header, and the fields of an event in one column as JSON. A trace has millions
 * of events, so this file writes them directly, without struct rp_rows.
 */
#ifndef RP_TOOL_EVENT_PRINTER_H
#define RP_TOOL_EVENT_PRINTER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <ringpipe/reader.h>

#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"
#include "tools/formats/format_out.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/json_event.h"
#include "tools/trace/known_fields.h"
#include "tools/trace/trace_symbols.h"

/* The names of a type in the output format. */
struct rp_printed_type {
	const struct rp_reader_type *type;
	char *provider, *name;
};

#define RP_PRINTED_TYPES 64u

/* The caller sets the first members, and zeros the others. */
struct rp_event_printer {
	FILE *stream;
	enum rp_format format;
	bool all;			/* internal events, too; see rp_event_is_internal() */
	struct rp_expression *where;	/* which events to print; NULL: all */
	struct rp_reader_info info;	/* of the trace */
	/* For event_printer.c only: each entry is at the place that its type's address gives. */
	struct rp_printed_type types[RP_PRINTED_TYPES];
	const struct rp_printed_type *names;	/* of the event */
	struct rp_format_out row;
	struct rp_json_decoder json;
	struct rp_known_event known;
	int64_t second;			/* of `second_text`, since 1970 */
	size_t second_bytes;
	char second_text[RP_TEXT_MAX];
	bool has_second;
	struct rp_symbols symbols;	/* functions have their names in the output format */
	uint64_t printed;		/* events */
	uint64_t process;		/* of the event */
	bool shows_process;
};

/* Print what precedes the first event. */
void rp_event_printer_begin(const struct rp_event_printer *printer);

/* Read the names of functions from a trace. Return: 0; -ENOMEM; otherwise as rp_symbols_read(). */
int rp_event_printer_name_functions(struct rp_event_printer *printer, const char *file);

/*
 * Print an event.
 * @process: its process; text and JSON have it only if `shows_process`.
 *
 * Return: 0; -ENOMEM; -errno of a write.
 */
int rp_event_printer_print(struct rp_event_printer *printer, const struct rp_reader_event *event,
			   uint64_t process, bool shows_process);

void rp_event_printer_fini(struct rp_event_printer *printer);

#endif
