/* SPDX-License-Identifier: MIT */
/*
 * ringpipe list: the enabled events of a process. Reply of ringpipe's own command 0x52/0x00: u32
 * rows, each {string provider, string session name, u64 session id (0: not enabled), u64 keywords,
 * u32 level, u32 events, string filter data}; then, from newer libraries, u32 rows, each {string
 * provider, string event, u32 tracers that the kernel counts}; then u32 rows, each {string
 * provider, string exporter, u64 events that the exporter lost}.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "ipc/command_ids.h"
#include "tools/client/events.h"
#include "tools/client/exchange.h"
#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/client/target.h"
#include "tools/cli/tool.h"

#define REPLY_TIMEOUT_MS 5000

struct list_row {
	char *provider;
	char *session;
	uint64_t session_id;
	uint64_t keywords;
	uint32_t level;
	uint32_t events;
	uint32_t position;		/* in the reply */
	char *filter;
};

struct session_rows {
	struct list_row *rows;
	size_t count, capacity;
};

static void get_row(struct rp_cursor *cursor, struct list_row *row)
{
	row->provider = rp_message_take_string(cursor);
	row->session = rp_message_take_string(cursor);
	row->session_id = rp_cursor_get_u64(cursor);
	row->keywords = rp_cursor_get_u64(cursor);
	row->level = rp_cursor_get_u32(cursor);
	row->events = rp_cursor_get_u32(cursor);
	row->filter = rp_message_take_string(cursor);
}

static void free_row(struct list_row *row)
{
	free(row->provider);
	free(row->session);
	free(row->filter);
}

/* A row of any table, in one form: members that the row does not report are null. */
struct any_row {
	const char *kind;
	const char *provider;
	const struct list_row *session;	/* or NULL, like the following members */
	const char *event;
	const char *exporter;
	const uint64_t *count;		/* tracers of the event, or losses of the exporter */
};

/* Text has one table for each kind of row; JSON and CSV have one for all. */
enum { SESSIONS, TRACERS, LOSSES, TABLES };
#define COLUMNS 11

struct tables {
	struct rp_column columns[TABLES][COLUMNS];
	struct rp_rows rows[TABLES];
	enum rp_format format;
};

static struct json_object *number_or_null(const uint64_t *number)
{
	return number ? json_object_new_uint64(*number) : NULL;
}

static void add_session(struct rp_rows *rows, const struct list_row *row)
{
	const uint64_t level = row ? row->level : 0, events = row ? row->events : 0;

	rp_rows_add(rows, number_or_null(row ? &row->session_id : NULL), NULL);
	if (row)
		rp_rows_addf(rows, json_object_new_uint64(row->keywords), "%" PRIx64,
			     row->keywords);
	else
		rp_rows_add(rows, NULL, NULL);
	rp_rows_add(rows, number_or_null(row ? &level : NULL), NULL);
	rp_rows_add(rows, number_or_null(row ? &events : NULL), NULL);
	rp_rows_add(rows, rp_json_string(row ? row->filter : NULL), row ? NULL : "");
}

static void add_row(struct tables *tables, int table, const struct any_row *row)
{
	struct rp_rows *rows = &tables->rows[tables->format == RP_FORMAT_TEXT ? table : SESSIONS];

	rp_rows_add_string(rows, row->kind);
	rp_rows_add_string(rows, row->provider);
	rp_rows_add_string(rows, row->session ? row->session->session : row->exporter);
	add_session(rows, row->session);
	rp_rows_add_string(rows, row->event);
	rp_rows_add(rows, row->event ? number_or_null(row->count) : NULL, NULL);
	rp_rows_add(rows, row->exporter ? number_or_null(row->count) : NULL, NULL);
}

/*
 * Reads rows {string provider, string event or exporter, number}. An older library does not send
 * this table.
 */
static void read_counts(struct rp_cursor *cursor, struct tables *tables, int table)
{
	uint32_t count = rp_cursor_left(cursor) ? rp_cursor_get_u32(cursor) : 0;

	for (uint32_t i = 0; i < count && !rp_cursor_failed(cursor); i++) {
		char *provider = rp_message_take_string(cursor);
		char *text = rp_message_take_string(cursor);
		uint64_t number = table == LOSSES ? rp_cursor_get_u64(cursor) :
				  rp_cursor_get_u32(cursor);

		if (!rp_cursor_failed(cursor))
			add_row(tables, table, &(struct any_row){
				.kind = table == TRACERS ? "tracers" : "losses",
				.provider = provider,
				.event = table == TRACERS ? text : NULL,
				.exporter = table == LOSSES ? text : NULL,
				.count = &number,
			});
		free(provider);
		free(text);
	}
}

static int compare_sessions(const void *a, const void *b)
{
	const struct list_row *x = a, *y = b;
	int order = strcmp(x->provider, y->provider);

	if (!order)
		order = (x->session_id > y->session_id) - (x->session_id < y->session_id);
	return order ? order : (x->position > y->position) - (x->position < y->position);
}

static int compare_positions(const void *a, const void *b)
{
	const struct list_row *x = a, *y = b;

	return (x->position > y->position) - (x->position < y->position);
}

/*
 * Join the rows of one provider and session. A process has several providers of one name if several
 * libraries declare it, or if it has counters, whose events belong to a provider of the same name.
 */
static void join(struct session_rows *rows)
{
	size_t kept = 0;

	if (!rows->count)
		return;
	qsort(rows->rows, rows->count, sizeof(*rows->rows), compare_sessions);
	for (size_t i = 1; i < rows->count; i++) {
		struct list_row *row = &rows->rows[i], *last = &rows->rows[kept];

		if (strcmp(row->provider, last->provider) || row->session_id != last->session_id) {
			rows->rows[++kept] = *row;
			continue;
		}
		last->events += row->events;
		free_row(row);
	}
	rows->count = kept + 1;
	qsort(rows->rows, rows->count, sizeof(*rows->rows), compare_positions);
}

/* Read the first table. Return: 0, -EPROTO or -ENOMEM. */
static int get_rows(struct rp_cursor *cursor, struct session_rows *rows)
{
	const uint32_t count = rp_cursor_get_u32(cursor);

	for (uint32_t i = 0; i < count && !rp_cursor_failed(cursor); i++) {
		struct list_row *grown = rp_array_reserve(rows->rows, rows->count, &rows->capacity,
							  1, sizeof(*grown));
		struct list_row *row;

		if (!grown)
			return -ENOMEM;
		rows->rows = grown;
		row = &grown[rows->count];
		get_row(cursor, row);
		row->position = i;
		if (rp_cursor_failed(cursor))
			free_row(row);
		else
			rows->count++;
	}
	return rp_cursor_failed(cursor) ? -EPROTO : 0;
}

static int read_sessions(struct rp_cursor *cursor, struct tables *tables)
{
	struct session_rows rows = { 0 };
	int ret = get_rows(cursor, &rows);

	if (ret == 0)
		join(&rows);
	for (size_t i = 0; i < rows.count; i++) {
		const struct list_row *row = &rows.rows[i];

		if (ret == 0)
			add_row(tables, SESSIONS, &(struct any_row){
				.kind = row->session_id ? "session" : "provider",
				.provider = row->provider,
				.session = row->session_id ? row : NULL,
			});
		free_row(&rows.rows[i]);
	}
	free(rows.rows);
	return ret;
}

/* Return: 0, -EPROTO or -ENOMEM. */
static int read_rows(const struct rp_exchange *exchange, struct tables *tables)
{
	struct rp_cursor cursor = rp_exchange_payload(exchange);
	int ret = read_sessions(&cursor, tables);

	if (ret)
		return ret;
	read_counts(&cursor, tables, TRACERS);
	if (!rp_cursor_failed(&cursor))
		read_counts(&cursor, tables, LOSSES);
	return rp_cursor_failed(&cursor) ? -EPROTO : 0;
}

static void init_tables(struct tables *tables, enum rp_format format)
{
	static const struct {
		const char *key, *titles[TABLES];
		bool is_right;
	} columns[COLUMNS] = {
		{ .key = "kind" },
		{ "provider", { "PROVIDER", "PROVIDER", "PROVIDER" }, false },
		{ "session", { [SESSIONS] = "SESSION", [LOSSES] = "SESSION" }, false },
		{ "session_id", { "ID" }, true },
		{ "keywords", { "KEYWORDS" }, true },
		{ "level", { "LEVEL" }, true },
		{ "events", { "EVENTS" }, true },
		{ "filter", { "FILTER" }, false },
		{ "event", { [TRACERS] = "EVENT" }, false },
		{ "tracers", { [TRACERS] = "TRACERS" }, true },
		{ "lost", { [LOSSES] = "LOST" }, true },
	};

	tables->format = format;
	for (int table = 0; table < TABLES; table++) {
		for (size_t i = 0; i < COLUMNS; i++)
			tables->columns[table][i] = (struct rp_column){
				.key = columns[i].key,
				.title = columns[i].titles[table],
				.is_right = columns[i].is_right,
			};
		rp_rows_init(&tables->rows[table], format, tables->columns[table], COLUMNS);
	}
}

static int print_tables(struct tables *tables)
{
	int status = rp_rows_print(&tables->rows[SESSIONS]);

	for (int table = TRACERS; table < TABLES && status == RP_EXIT_OK; table++) {
		if (tables->rows[table].cell_count == 0)
			continue;
		putchar('\n');
		status = rp_rows_print(&tables->rows[table]);
	}
	return status;
}

static int print_rows(const struct rp_exchange *exchange, enum rp_format format)
{
	int status = RP_EXIT_FAILURE, ret;
	struct tables tables;

	init_tables(&tables, format);
	ret = read_rows(exchange, &tables);
	if (ret)
		rp_exchange_explain(exchange, "list", ret);
	else
		status = print_tables(&tables);
	for (int table = 0; table < TABLES; table++)
		rp_rows_fini(&tables.rows[table]);
	return status;
}

static int list_events(const struct rp_target *target, const struct rp_tool_options *options)
{
	struct rp_event_rows rows;
	int ret = rp_event_rows_get(target, &rows), status;

	if (ret == -EOPNOTSUPP)
		rp_tool_error("process %d does not report its events: it is .NET's, or has an "
			      "older libringpipe", target->pid);
	if (ret)
		return RP_EXIT_FAILURE;
	status = rp_event_rows_print(&rows, options->given & RP_OPTION_FIELDS,
				     options->given & RP_OPTION_ALL, options->format);
	rp_event_rows_fini(&rows);
	return status;
}

static int list_providers(const struct rp_target *target, const struct rp_tool_options *options)
{
	static struct rp_message_buffer request;
	struct rp_exchange exchange;
	int ret, status = RP_EXIT_FAILURE;

	rp_message_begin(&request, RP_MESSAGE_RINGPIPE, RP_OWN_LIST_ENABLED);
	rp_message_end(&request);
	ret = rp_exchange_begin(&exchange, target, &request);
	if (!ret)
		ret = rp_exchange_run(&exchange, REPLY_TIMEOUT_MS);
	if (rp_exchange_unknown_command(&exchange, ret))
		rp_tool_error("process %d is traceable, but only libringpipe reports who enabled "
			      "what; this is a .NET runtime", target->pid);
	else if (ret)
		rp_exchange_explain(&exchange, "list", ret);
	else
		status = print_rows(&exchange, options->format);
	rp_exchange_end(&exchange);
	return status;
}

int rp_command_list(const struct rp_tool_options *options)
{
	struct rp_target target;
	int status;

	if ((options->given & (RP_OPTION_FIELDS | RP_OPTION_ALL)) &&
	    !(options->given & RP_OPTION_OWN_EVENTS)) {
		rp_tool_error("list: --fields and --all require --events");
		return RP_EXIT_USAGE;
	}
	if (rp_target_find(options->pid, options->name, &target))
		return RP_EXIT_FAILURE;
	status = options->given & RP_OPTION_OWN_EVENTS ? list_events(&target, options) :
		 list_providers(&target, options);
	rp_target_fini(&target);
	return status;
}
