/* SPDX-License-Identifier: MIT */
#include "tools/trace/trace_restore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/field.h>

#include "base/array.h"
#include "nettrace/convert.h"
#include "nettrace/event_header.h"
#include "nettrace/format.h"
#include "tools/trace/trace_merge.h"

#define LIST_BYTES_MAX (4u << 20)	/* fits a block */

static const struct rp_field process_fields[] = {
	{ "process_id", .type = RP_TYPE_U32 }, { "parent_id", .type = RP_TYPE_U32 },
	{ "name", .type = RP_TYPE_STRING }, { "command_line", .type = RP_TYPE_STRING },
};

static const struct rp_field thread_fields[] = {
	{ "thread", .type = RP_TYPE_U64 }, { "process_id", .type = RP_TYPE_U32 },
};

static const struct rp_field name_fields[] = {
	{ "thread", .type = RP_TYPE_U64 }, { "name", .type = RP_TYPE_STRING },
};

static const struct rp_field pair_fields[] = {
	{ "key", .type = RP_TYPE_STRING }, { "value", .type = RP_TYPE_STRING },
};

static const struct rp_field label_fields[] = {
	{ "key", .type = RP_TYPE_STRING }, { "value", .type = RP_TYPE_STRING },
	{ "kind", .type = RP_TYPE_U8 },		/* of a label in version 6 */
};

/* By the version they differ from the events of a merged trace that have the same ids. */
#define ADDED(name_, id_, fields_) { \
	.provider = RP_TRACE_MERGE_PROVIDER, .name = name_, .id = id_, \
	.version = RP_TRACE_ADDED_VERSION, \
	.level = RP_LEVEL_INFORMATIONAL, .fields = fields_, \
	.field_count = sizeof(fields_) / sizeof(fields_[0]), \
}

const struct rp_definition rp_trace_added_definitions[RP_TRACE_ADDED_COUNT] = {
	[RP_TRACE_ADDED_PROCESS] = ADDED("ProcessTraced", RP_TRACE_MERGE_PROCESS, process_fields),
	[RP_TRACE_ADDED_THREAD] = ADDED("ThreadOfProcess", RP_TRACE_MERGE_THREAD, thread_fields),
	[RP_TRACE_ADDED_THREAD_NAME] = ADDED("ThreadName", RP_TRACE_MERGE_THREAD_NAME,
					     name_fields),
	[RP_TRACE_ADDED_KEY_VALUE] = ADDED("TraceKeyValue", RP_TRACE_MERGE_KEY_VALUE, pair_fields),
	[RP_TRACE_ADDED_LABEL] = ADDED("EventLabel", RP_TRACE_MERGE_LABEL, label_fields),
};

/* Return: the text of a field, for free(), or "" if there is none; NULL: no memory. */
static char *take_text(const struct rp_reader_event *event, const char *name)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;
	size_t bytes;
	char *text;

	rp_reader_get_fields(event, &fields);
	if (rp_fields_find(&fields, name, &value) != 0)
		return strdup("");
	bytes = rp_value_get_text(&value, NULL, 0) + 1;
	text = malloc(bytes);
	if (text)
		rp_value_get_text(&value, text, bytes);
	return text;
}

static uint64_t take_number(const struct rp_reader_event *event, const char *name)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	return rp_fields_find(&fields, name, &value) == 0 ? value.u64 : 0;
}

/* Put `size` bytes from hexadecimal digits. Return: whether the text has exactly these digits. */
static bool put_hex(struct rp_outbuf *out, const char *text, size_t size)
{
	uint8_t bytes[16];

	if (strlen(text) != 2 * size || strspn(text, "0123456789abcdef") != 2 * size)
		return false;
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)strtoul((const char[]){ text[2 * i], text[2 * i + 1], 0 },
					    NULL, 16);
	rp_outbuf_put(out, bytes, size);
	return true;
}

static void put_label(struct rp_trace_restore *restore, uint64_t kind, const char *key,
		      const char *value)
{
	struct rp_outbuf *out = &restore->labels;
	const size_t start = out->size;
	const int64_t number = strtoll(value, NULL, 10);
	bool is_whole = true;

	rp_outbuf_put_u8(out, (uint8_t)kind);
	if (kind == RP_LABEL_TRACE_ID) {
		is_whole = put_hex(out, value, 16);
	} else if (kind == RP_LABEL_SPAN_ID) {
		rp_outbuf_put_u64(out, strtoull(value, NULL, 16));
	} else if (kind == RP_LABEL_NUMBER) {
		rp_outbuf_put_text8(out, key);
		rp_outbuf_put_varint(out, (uint64_t)number << 1 ^ (uint64_t)(number >> 63));
	} else if (kind == RP_LABEL_TEXT) {
		rp_outbuf_put_text8(out, key);
		rp_outbuf_put_text8(out, value);
	} else {
		is_whole = false;
	}
	if (is_whole && out->size <= LIST_BYTES_MAX)
		restore->last = start;
	else
		out->size = start;
	restore->dropped += out->size == start;
}

static int take_pair(struct rp_trace_restore *restore, const struct rp_reader_event *event)
{
	char *key = take_text(event, "key"), *value = take_text(event, "value");
	const bool is_label = event->type->id == RP_TRACE_MERGE_LABEL;
	struct rp_outbuf *out = is_label ? &restore->labels : &restore->pairs;

	if (key && value && is_label) {
		put_label(restore, take_number(event, "kind"), key, value);
	} else if (key && value) {
		rp_outbuf_put_text8(out, key);
		rp_outbuf_put_text8(out, value);
		restore->pair_count++;
	}
	free(key);
	free(value);
	return key && value && !out->failed ? 1 : -ENOMEM;
}

static int take_name(struct rp_trace_restore *restore, const struct rp_reader_event *event)
{
	struct rp_thread_row *rows = rp_array_reserve(restore->rows, restore->row_count,
						      &restore->row_capacity, 1, sizeof(*rows));
	struct rp_thread_slot *slot;
	char *name;

	if (!rows)
		return -ENOMEM;
	restore->rows = rows;
	if (rp_thread_table_add(&restore->names, take_number(event, "thread"), &slot) < 0)
		return -ENOMEM;
	name = take_text(event, "name");
	if (!name)
		return -ENOMEM;
	if (!slot->sequence) {
		rows[restore->row_count++] = (struct rp_thread_row){ 0 };
		slot->sequence = (uint32_t)restore->row_count;
	}
	free(rows[slot->sequence - 1].name);
	rows[slot->sequence - 1].name = name;
	return 1;
}

bool rp_trace_restore_is_added(const struct rp_reader_type *type)
{
	return type->version == RP_TRACE_ADDED_VERSION && type->id >= RP_TRACE_MERGE_PROCESS &&
	       type->id <= RP_TRACE_MERGE_LABEL && type->id != RP_TRACE_MERGE_END &&
	       !strcmp(type->provider, RP_TRACE_MERGE_PROVIDER);
}

int rp_trace_restore_take(struct rp_trace_restore *restore, const struct rp_reader_event *event)
{
	if (!rp_trace_restore_is_added(event->type))
		return 0;
	switch (event->type->id) {
	case RP_TRACE_MERGE_THREAD_NAME:
		return take_name(restore, event);
	case RP_TRACE_MERGE_KEY_VALUE:
		return restore->pairs.size <= LIST_BYTES_MAX ? take_pair(restore, event) : 0;
	case RP_TRACE_MERGE_LABEL:
		return take_pair(restore, event);
	default:
		return 1;
	}
}

int rp_trace_restore_hold(struct rp_trace_restore *restore, const struct rp_reader_event *event)
{
	struct rp_outbuf *held = &restore->labels;

	if (!rp_trace_restore_is_added(event->type) || event->type->id != RP_TRACE_MERGE_LABEL)
		return 0;
	if (held->size <= LIST_BYTES_MAX) {
		rp_outbuf_put_u32(held, (uint32_t)event->payload_bytes);
		rp_outbuf_put(held, event->payload, event->payload_bytes);
	} else {
		restore->dropped++;
	}
	return held->failed ? -ENOMEM : 1;
}

bool rp_trace_restore_next_held(struct rp_trace_restore *restore, struct rp_outbuf *payload)
{
	struct rp_outbuf *held = &restore->labels;
	uint32_t bytes;

	if (restore->given == held->size) {
		restore->given = held->size = 0;
		return false;
	}
	memcpy(&bytes, held->bytes + restore->given, sizeof(bytes));
	rp_outbuf_put(payload, held->bytes + restore->given + sizeof(bytes), bytes);
	restore->given += sizeof(bytes) + bytes;
	return true;
}

const struct rp_thread_row *rp_trace_restore_row(const struct rp_trace_restore *restore,
						 uint64_t thread)
{
	const struct rp_thread_slot *slot = rp_thread_table_find(&restore->names, thread);

	return slot ? &restore->rows[slot->sequence - 1] : NULL;
}

static void put_id(struct rp_outbuf *out, uint8_t kind, const struct rp_guid *id)
{
	static const struct rp_guid none;
	struct rp_guid wire;

	if (!memcmp(id, &none, sizeof(none)))
		return;
	rp_guid_swap(id->bytes, wire.bytes);
	rp_outbuf_put_u8(out, kind);
	rp_outbuf_put(out, &wire, sizeof(wire));
}

int rp_trace_restore_labels(struct rp_trace_restore *restore, const struct rp_reader_event *event,
			    const struct rp_outbuf **ret_list)
{
	struct rp_outbuf *list = &restore->list;

	*ret_list = NULL;
	if (!restore->labels.size)
		return 0;
	list->size = 0;
	put_id(list, RP_LABEL_ACTIVITY, &event->activity);
	put_id(list, RP_LABEL_RELATED, &event->related_activity);
	rp_outbuf_put(list, restore->labels.bytes, restore->labels.size);
	if (list->failed)
		return -ENOMEM;
	list->bytes[list->size - restore->labels.size + restore->last] |= RP_LABEL_LAST;
	restore->labels.size = 0;
	*ret_list = list;
	return 0;
}

void rp_trace_restore_fini(struct rp_trace_restore *restore)
{
	for (size_t i = 0; i < restore->row_count; i++)
		free(restore->rows[i].name);
	free(restore->rows);
	rp_thread_table_fini(&restore->names);
	rp_outbuf_fini(&restore->pairs);
	rp_outbuf_fini(&restore->labels);
	rp_outbuf_fini(&restore->list);
}
