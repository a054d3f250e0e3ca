/* SPDX-License-Identifier: MIT */
/*
 * ringpipe list: who enabled what in a process. Reply of ringpipe's own command 0x52/0x00: u32
 * rows, each {string provider, string session name, u64 session id (0: nobody enabled it),
 * u64 keywords, u32 level, u32 events, string filter data}; then, from newer libraries, u32 rows,
 * each {string provider, string event, u32 tracers that the kernel counts}; then u32 rows, each
 * {string provider, string exporter, u64 events that it could not take}.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/exchange.h"
#include "tool/json.h"
#include "tool/table.h"
#include "tool/target.h"
#include "tool/tool.h"

#define REPLY_TIMEOUT_MS 5000

struct row {
	char *provider;
	char *session;
	uint64_t session_id;
	uint64_t keywords;
	uint32_t level;
	uint32_t events;
	char *filter;
};

static void get_row(struct rp_wire_cursor *cursor, struct row *row)
{
	row->provider = rp_wire_get_string(cursor);
	row->session = rp_wire_get_string(cursor);
	row->session_id = rp_wire_get_u64(cursor);
	row->keywords = rp_wire_get_u64(cursor);
	row->level = rp_wire_get_u32(cursor);
	row->events = rp_wire_get_u32(cursor);
	row->filter = rp_wire_get_string(cursor);
}

static void free_row(struct row *row)
{
	free(row->provider);
	free(row->session);
	free(row->filter);
}

static void add_text(struct rp_table *table, const struct row *row)
{
	rp_table_add(table, row->provider);
	if (row->session_id == 0) {
		for (int i = 0; i < 6; i++)
			rp_table_add(table, i < 5 ? "-" : "");
		return;
	}
	rp_table_add(table, row->session);
	rp_table_addf(table, "%" PRIu64, row->session_id);
	rp_table_addf(table, "%" PRIx64, row->keywords);
	rp_table_addf(table, "%" PRIu32, row->level);
	rp_table_addf(table, "%" PRIu32, row->events);
	rp_table_add(table, row->filter);
}

static void add_json(struct json_object *rows, const struct row *row)
{
	struct json_object *out = json_object_new_object();
	bool enabled = row->session_id != 0;

	json_object_object_add(out, "provider", rp_json_string(row->provider));
	json_object_object_add(out, "enabled", json_object_new_boolean(enabled));
	if (enabled) {
		json_object_object_add(out, "session", rp_json_string(row->session));
		json_object_object_add(out, "session_id", json_object_new_uint64(row->session_id));
		json_object_object_add(out, "keywords", json_object_new_uint64(row->keywords));
		json_object_object_add(out, "level", json_object_new_int64(row->level));
		json_object_object_add(out, "events", json_object_new_int64(row->events));
		json_object_object_add(out, "filter", rp_json_string(row->filter));
	}
	json_object_array_add(rows, out);
}

/* A row of the tables behind the first: {string provider, string, number}. */
static void add_count(struct rp_table *table, struct json_object *rows, const char *provider,
		      const char *key, const char *text, const char *count_key, uint64_t count)
{
	struct json_object *out = json_object_new_object();

	rp_table_add(table, provider);
	rp_table_add(table, text);
	rp_table_addf(table, "%" PRIu64, count);
	json_object_object_add(out, "provider", rp_json_string(provider));
	json_object_object_add(out, "enabled", json_object_new_boolean(true));
	json_object_object_add(out, key, rp_json_string(text));
	json_object_object_add(out, count_key, json_object_new_uint64(count));
	json_object_array_add(rows, out);
}

/* A table that an older library does not have. */
static void read_counts(struct rp_wire_cursor *cursor, struct rp_table *table,
			struct json_object *rows, const char *key, const char *count_key)
{
	bool losses = strcmp(count_key, "lost") == 0;
	uint32_t count = cursor->left ? rp_wire_get_u32(cursor) : 0;

	for (uint32_t i = 0; i < count && !cursor->failed; i++) {
		char *provider = rp_wire_get_string(cursor), *text = rp_wire_get_string(cursor);
		uint64_t number = losses ? rp_wire_get_u64(cursor) : rp_wire_get_u32(cursor);

		if (!cursor->failed)
			add_count(table, rows, provider, key, text, count_key, number);
		free(provider);
		free(text);
	}
}

struct tables {
	struct rp_table sessions, tracers, losses;
};

/* Return: 0, or -EPROTO. */
static int read_rows(const struct rp_exchange *exchange, struct tables *tables,
		     struct json_object *rows)
{
	struct rp_wire_cursor cursor = { exchange->payload, exchange->payload_bytes, false };
	uint32_t count = rp_wire_get_u32(&cursor);

	for (uint32_t i = 0; i < count && !cursor.failed; i++) {
		struct row row;

		get_row(&cursor, &row);
		if (!cursor.failed) {
			add_text(&tables->sessions, &row);
			add_json(rows, &row);
		}
		free_row(&row);
	}
	if (!cursor.failed)
		read_counts(&cursor, &tables->tracers, rows, "event", "tracers");
	if (!cursor.failed)
		read_counts(&cursor, &tables->losses, rows, "exporter", "lost");
	return cursor.failed ? -EPROTO : 0;
}

static int print_behind(const struct rp_table *table)
{
	if (table->cell_count == 0)
		return 0;
	putchar('\n');
	return rp_table_print(table);
}

static int print_tables(const struct tables *tables)
{
	bool failed = rp_table_print(&tables->sessions) || print_behind(&tables->tracers) ||
		      print_behind(&tables->losses);

	return failed ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

static int print_rows(const struct rp_exchange *exchange, bool as_json)
{
	static const char *const titles[] = { "PROVIDER", "SESSION", "ID", "KEYWORDS", "LEVEL",
					      "EVENTS", "FILTER", NULL };
	static const char *const tracer_titles[] = { "PROVIDER", "EVENT", "TRACERS", NULL };
	static const char *const loss_titles[] = { "PROVIDER", "SESSION", "LOST", NULL };
	struct json_object *rows = json_object_new_array();
	int ret, status = RP_EXIT_FAILURE;
	struct tables tables;

	rp_table_init(&tables.sessions, titles, "llrrrrl");
	rp_table_init(&tables.tracers, tracer_titles, "llr");
	rp_table_init(&tables.losses, loss_titles, "llr");
	ret = read_rows(exchange, &tables, rows);
	if (ret) {
		rp_exchange_explain(exchange, "list", ret);
		json_object_put(rows);
	} else if (as_json) {
		status = rp_json_print(rows);
	} else {
		json_object_put(rows);
		status = print_tables(&tables);
	}
	rp_table_fini(&tables.losses);
	rp_table_fini(&tables.tracers);
	rp_table_fini(&tables.sessions);
	return status;
}

int rp_command_list(const struct rp_tool_options *options)
{
	static struct rp_wire_message request;
	struct rp_exchange exchange;
	struct rp_target target;
	int ret, status = RP_EXIT_FAILURE;

	if (rp_target_find(options->pid, options->name, &target))
		return RP_EXIT_FAILURE;
	rp_wire_begin(&request, RP_SET_RINGPIPE, 0x00);
	rp_wire_end(&request);
	ret = rp_exchange_begin(&exchange, &target, &request);
	if (!ret)
		ret = rp_exchange_run(&exchange, REPLY_TIMEOUT_MS);
	if (rp_exchange_unknown_command(&exchange, ret))
		rp_tool_error("process %d is traceable, but only libringpipe can tell who enabled "
			      "what; this is a .NET runtime", target.pid);
	else if (ret)
		rp_exchange_explain(&exchange, "list", ret);
	else
		status = print_rows(&exchange, options->given & RP_OPTION_JSON);
	rp_exchange_end(&exchange);
	rp_target_fini(&target);
	return status;
}
