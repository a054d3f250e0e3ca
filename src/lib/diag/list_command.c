/* SPDX-License-Identifier: MIT */
#include "diag/list_command.h"

#include <ringpipe/provider.h>

#include "core/listing.h"

struct list_rows {
	struct rp_message_buffer *reply;
	uint32_t count;
};

/* A row for each session of a provider, or one for a provider that no session enabled. */
static int enabled_row(const struct rp_enabled *enabled, void *data)
{
	struct list_rows *rows = data;

	rp_message_put_string(rows->reply, enabled->provider);
	rp_message_put_string(rows->reply, enabled->session_name);
	rp_message_put_u64(rows->reply, enabled->session_id);
	rp_message_put_u64(rows->reply, enabled->keywords);
	rp_message_put_u32(rows->reply, enabled->level);
	rp_message_put_u32(rows->reply, enabled->event_count);
	rp_message_put_string(rows->reply, enabled->filter_data);
	rows->count++;
	return rows->reply->error;
}

/* A row per event with tracers of the kernel; in a separate table, which older tools ignore. */
static int traced_row(const struct rp_traced *traced, void *data)
{
	struct list_rows *rows = data;

	rp_message_put_string(rows->reply, traced->provider);
	rp_message_put_string(rows->reply, traced->event);
	rp_message_put_u32(rows->reply, traced->tracers);
	rows->count++;
	return rows->reply->error;
}

/* A row for each exporter that lost events. */
static int lost_row(const struct rp_enabled *enabled, void *data)
{
	struct list_rows *rows = data;

	if (!enabled->lost)
		return 0;
	rp_message_put_string(rows->reply, enabled->provider);
	rp_message_put_string(rows->reply, enabled->session_name);
	rp_message_put_u64(rows->reply, enabled->lost);
	rows->count++;
	return rows->reply->error;
}

/* Put a table: the number of its rows, then the rows that `list` puts. */
static int put_table(struct rp_message_buffer *reply, int (*list)(struct list_rows *rows))
{
	struct list_rows rows = { .reply = reply };
	size_t count_at = reply->size;
	int ret;

	rp_message_put_u32(reply, 0);
	ret = list(&rows);
	if (ret == 0)
		rp_message_set_u32(reply, count_at, rows.count);
	return ret;
}

static int list_enabled(struct list_rows *rows)
{
	return rp_enabled_list(enabled_row, rows);
}

static int list_traced(struct list_rows *rows)
{
	return rp_traced_list(traced_row, rows);
}

static int list_lost(struct list_rows *rows)
{
	return rp_enabled_list(lost_row, rows);
}

int rp_list_enabled(struct rp_message_buffer *reply)
{
	int ret = put_table(reply, list_enabled);

	if (ret == 0)
		ret = put_table(reply, list_traced);
	return ret == 0 ? put_table(reply, list_lost) : ret;
}

/* Put the fields, with those inside structs; the library limits their depth. */
static void put_fields(struct rp_message_buffer *reply, const struct rp_field *fields,
		       uint32_t count)
{
	rp_message_put_u32(reply, count);
	for (uint32_t i = 0; i < count; i++) {
		rp_message_put_string(reply, fields[i].name);
		rp_message_put_u8(reply, fields[i].type);
		rp_message_put_u8(reply, fields[i].element);
		rp_message_put_u8(reply, fields[i].flags & RP_FIELD_SECRET ? 1 : 0);
		put_fields(reply, fields[i].members, fields[i].member_count);
	}
}

static int event_row(const struct rp_event_def *def, void *data)
{
	struct list_rows *rows = data;

	rp_message_put_string(rows->reply, def->provider);
	rp_message_put_string(rows->reply, def->name);
	rp_message_put_u32(rows->reply, def->id);
	rp_message_put_u32(rows->reply, def->version);
	rp_message_put_u32(rows->reply, def->level);
	rp_message_put_u64(rows->reply, def->keywords);
	put_fields(rows->reply, def->fields, def->field_count + def->wire_field_count);
	rows->count++;
	return rows->reply->error;
}

static int list_events(struct list_rows *rows)
{
	return rp_core_list_events(event_row, rows);
}

int rp_list_events(struct rp_message_buffer *reply)
{
	return put_table(reply, list_events);
}
