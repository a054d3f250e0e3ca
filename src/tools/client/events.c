/* SPDX-License-Identifier: MIT */
/* ringpipe list --events. src/lib/diag/list_command.h describes the reply to 0x52/0x0c. */
#include "tools/client/events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/types.h>

#include "ipc/command_ids.h"
#include "tools/client/exchange.h"
#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/cli/tool.h"
#include "tools/trace/event_names.h"

#define REPLY_TIMEOUT_MS 5000
/* Limits the recursion, and so the stack that a hostile process can make this command use. */
#define DEPTH_MAX 16
/* The size of the smallest field: an empty name (its count and NUL), three bytes, no members. */
#define FIELD_BYTES_MIN 13u

static void free_fields(struct rp_event_field *fields, uint32_t count)
{
	for (uint32_t i = 0; fields && i < count; i++) {
		free(fields[i].name);
		free_fields(fields[i].members, fields[i].member_count);
	}
	free(fields);
}

static void free_row(struct rp_event_row *row)
{
	free(row->provider);
	free(row->name);
	free_fields(row->fields, row->field_count);
}

void rp_event_rows_fini(struct rp_event_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free_row(&rows->rows[i]);
	free(rows->rows);
}

/* Even after a failure, the rows that were read are returned to the caller. */
static void get_fields(struct rp_cursor *cursor, int depth, struct rp_event_field **ret_fields,
		       uint32_t *ret_count)
{
	const uint32_t count = rp_cursor_get_u32(cursor);
	struct rp_event_field *fields;

	if (rp_cursor_failed(cursor) || count == 0)
		return;
	fields = depth < DEPTH_MAX && count <= rp_cursor_left(cursor) / FIELD_BYTES_MIN ?
		 calloc(count, sizeof(*fields)) : NULL;
	if (!fields) {
		rp_cursor_fail(cursor);
		return;
	}
	*ret_fields = fields;
	*ret_count = count;
	for (uint32_t i = 0; i < count && !rp_cursor_failed(cursor); i++) {
		fields[i].name = rp_message_take_string(cursor);
		fields[i].type = rp_cursor_get_u8(cursor);
		fields[i].element = rp_cursor_get_u8(cursor);
		fields[i].is_secret = rp_cursor_get_u8(cursor) & 1;
		get_fields(cursor, depth + 1, &fields[i].members, &fields[i].member_count);
	}
}

static int compare_rows(const void *left, const void *right)
{
	const struct rp_event_row *a = left, *b = right;
	const struct rp_event_key first = { a->provider, a->name, a->id, a->version };
	const struct rp_event_key second = { b->provider, b->name, b->id, b->version };

	return rp_event_key_compare(&first, &second);
}

/* Sorts, and drops repeated rows: each object of a program that uses an event has a row for it. */
static void sort(struct rp_event_rows *rows)
{
	size_t kept = 0;

	if (rows->count)
		qsort(rows->rows, rows->count, sizeof(*rows->rows), compare_rows);
	for (size_t i = 0; i < rows->count; i++) {
		if (kept && compare_rows(&rows->rows[kept - 1], &rows->rows[i]) == 0)
			free_row(&rows->rows[i]);
		else
			rows->rows[kept++] = rows->rows[i];
	}
	rows->count = kept;
}

static int read_rows(const struct rp_exchange *exchange, struct rp_event_rows *rows)
{
	struct rp_cursor cursor = rp_exchange_payload(exchange);
	const uint32_t count = rp_cursor_get_u32(&cursor);

	for (uint32_t i = 0; i < count && !rp_cursor_failed(&cursor); i++) {
		struct rp_event_row row = { .provider = rp_message_take_string(&cursor) };
		struct rp_event_row *grown;

		row.name = rp_message_take_string(&cursor);
		row.id = rp_cursor_get_u32(&cursor);
		row.version = rp_cursor_get_u32(&cursor);
		row.level = rp_cursor_get_u32(&cursor);
		row.keywords = rp_cursor_get_u64(&cursor);
		get_fields(&cursor, 0, &row.fields, &row.field_count);
		grown = rp_cursor_failed(&cursor) ? NULL :
			realloc(rows->rows, (rows->count + 1) * sizeof(*grown));
		if (!grown) {
			free_row(&row);
			return rp_cursor_failed(&cursor) ? -EPROTO : -ENOMEM;
		}
		rows->rows = grown;
		rows->rows[rows->count++] = row;
	}
	sort(rows);
	return rp_cursor_failed(&cursor) ? -EPROTO : 0;
}

int rp_event_rows_get(const struct rp_target *target, struct rp_event_rows *ret_rows)
{
	struct rp_message_buffer request = { 0 };
	struct rp_event_rows rows = { 0 };
	struct rp_exchange exchange;
	int ret;

	rp_message_begin(&request, RP_MESSAGE_RINGPIPE, RP_OWN_LIST_EVENTS);
	rp_message_end(&request);
	ret = rp_exchange_begin(&exchange, target, &request);
	if (ret == 0)
		ret = rp_exchange_run(&exchange, REPLY_TIMEOUT_MS);
	if (ret == 0)
		ret = read_rows(&exchange, &rows);
	if (rp_exchange_unknown_command(&exchange, ret))
		ret = -EOPNOTSUPP;
	else if (ret)
		rp_exchange_explain(&exchange, "list the events of", ret);
	rp_exchange_end(&exchange);
	rp_message_fini(&request);
	if (ret)
		rp_event_rows_fini(&rows);
	else
		*ret_rows = rows;
	return ret;
}

static const char *type_name(uint8_t type)
{
	static const char *const names[] = {
		[RP_TYPE_BOOL] = "bool", [RP_TYPE_CHAR] = "char",
		[RP_TYPE_I8] = "i8", [RP_TYPE_U8] = "u8", [RP_TYPE_I16] = "i16",
		[RP_TYPE_U16] = "u16", [RP_TYPE_I32] = "i32", [RP_TYPE_U32] = "u32",
		[RP_TYPE_I64] = "i64", [RP_TYPE_U64] = "u64", [RP_TYPE_POINTER] = "pointer",
		[RP_TYPE_F32] = "f32", [RP_TYPE_F64] = "f64", [RP_TYPE_GUID] = "guid",
		[RP_TYPE_TIME] = "time", [RP_TYPE_STRING] = "string",
		[RP_TYPE_STRING16] = "string16", [RP_TYPE_ARRAY] = "array",
		[RP_TYPE_STRUCT] = "struct",
	};
	const char *name = type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;

	return name ? name : "?";
}

/* Writes a type such as "u64", "u32[]" or "struct[]". */
static void put_type(const struct rp_event_field *field, FILE *stream)
{
	const bool is_array = field->type == RP_TYPE_ARRAY;

	fprintf(stream, "%s%s", type_name(is_array ? field->element : field->type),
		is_array ? "[]" : "");
}

static void put_fields(const struct rp_event_field *fields, uint32_t count, FILE *stream)
{
	for (uint32_t i = 0; i < count; i++) {
		fputs(i ? ", " : "", stream);
		if (fields[i].is_secret)
			fputs("secret ", stream);
		put_type(&fields[i], stream);
		if (fields[i].member_count) {
			fputs(" {", stream);
			put_fields(fields[i].members, fields[i].member_count, stream);
			putc('}', stream);
		}
		fprintf(stream, " %s", fields[i].name);
	}
}

static struct json_object *fields_to_json(const struct rp_event_field *fields, uint32_t count)
{
	struct json_object *rows = json_object_new_array();

	for (uint32_t i = 0; i < count; i++) {
		struct json_object *row = json_object_new_object();
		char type[32];
		FILE *stream = fmemopen(type, sizeof(type), "w");

		*type = '\0';
		if (stream) {
			put_type(&fields[i], stream);
			fclose(stream);
		}
		json_object_object_add(row, "name", rp_json_string(fields[i].name));
		json_object_object_add(row, "type", json_object_new_string(type));
		json_object_object_add(row, "secret", json_object_new_boolean(fields[i].is_secret));
		json_object_object_add(row, "members", fields_to_json(fields[i].members,
								      fields[i].member_count));
		json_object_array_add(rows, row);
	}
	return rows;
}

static void add_fields(struct rp_rows *rows, const struct rp_event_row *row)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (stream) {
		put_fields(row->fields, row->field_count, stream);
		fclose(stream);
	}
	rp_rows_add(rows, fields_to_json(row->fields, row->field_count), text ? text : "?");
	free(text);
}

int rp_event_rows_print(const struct rp_event_rows *rows, bool with_fields, bool all,
			enum rp_format format)
{
	static const struct rp_column columns[] = {
		{ .key = "provider", .title = "PROVIDER" },
		{ .key = "event", .title = "EVENT" },
		{ .key = "id", .title = "ID", .is_right = true },
		{ .key = "version" },
		{ .key = "level", .title = "LEVEL", .is_right = true },
		{ .key = "keywords", .title = "KEYWORDS", .is_right = true },
		{ .key = "fields", .title = "FIELDS" },
	};
	struct rp_rows out;
	int status;

	rp_rows_init(&out, format, columns,
		     sizeof(columns) / sizeof(columns[0]) - (with_fields ? 0 : 1));
	for (size_t i = 0; i < rows->count; i++) {
		const struct rp_event_row *row = &rows->rows[i];

		if (!all && rp_event_is_internal(row->provider, row->name))
			continue;
		rp_rows_add_string(&out, row->provider);
		rp_rows_add_string(&out, row->name);
		rp_rows_add_u64(&out, row->id);
		rp_rows_add_u64(&out, row->version);
		rp_rows_add_u64(&out, row->level);
		rp_rows_addf(&out, json_object_new_uint64(row->keywords), "%" PRIx64,
			     row->keywords);
		if (with_fields)
			add_fields(&out, row);
	}
	status = rp_rows_print(&out);
	rp_rows_fini(&out);
	return status;
}
