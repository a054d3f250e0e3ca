/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-bpf/show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"

#define BAR_WIDTH 40
#define VALUE_TEXT_BYTES (RP_BPF_KEY_BYTES + 16)

/* A value of a field and its number of events. */
struct show_row {
	struct rp_bpf_key key;
	uint64_t count;
};

struct show_rows {
	struct show_row *rows;
	size_t count;
};

static int compare_rows(const void *a, const void *b)
{
	const struct show_row *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* Reads the most frequent values. Return: 0; -ENOMEM, reported. */
static int read_rows(const struct rp_bpf_view *view, struct show_rows *ret_rows)
{
	int map = bpf_map__fd(view->program->skeleton->maps.keys);
	struct show_row *rows = calloc(RP_BPF_KEYS, sizeof(*rows));
	struct rp_bpf_key key;
	size_t count = 0;
	int ret;

	if (!rows) {
		rp_tool_error("out of memory");
		return -ENOMEM;
	}
	ret = bpf_map_get_next_key(map, NULL, &key);
	while (ret == 0 && count < RP_BPF_KEYS) {
		rows[count].key = key;
		if (bpf_map_lookup_elem(map, &key, &rows[count].count) == 0)
			count++;
		ret = bpf_map_get_next_key(map, &key, &key);
	}
	qsort(rows, count, sizeof(*rows), compare_rows);
	*ret_rows = (struct show_rows){ rows, count < view->top ? count : (size_t)view->top };
	return 0;
}

static uint64_t number_of(const struct rp_bpf_key *key)
{
	uint32_t shift = 64 - 8 * (key->bytes < 8 ? key->bytes : 8);
	uint64_t value;

	memcpy(&value, key->value, sizeof(value));
	return key->kind == RP_BPF_VALUE_SIGNED ? (uint64_t)((int64_t)(value << shift) >> shift) :
						  value;
}

static double float_of(const struct rp_bpf_key *key)
{
	double wide;
	float narrow;

	memcpy(&wide, key->value, sizeof(wide));
	memcpy(&narrow, key->value, sizeof(narrow));
	return key->bytes == sizeof(narrow) ? (double)narrow : wide;
}

static void format_value(const struct rp_bpf_key *key, char text[VALUE_TEXT_BYTES])
{
	char *at = text;

	switch (key->kind) {
	case RP_BPF_VALUE_STRING:
		snprintf(text, VALUE_TEXT_BYTES, "%.*s%s", (int)RP_BPF_KEY_BYTES,
			 (const char *)key->value, key->bytes > RP_BPF_KEY_BYTES ? "…" : "");
		break;
	case RP_BPF_VALUE_BYTES:
		for (int i = 0; i < 16; i++)
			at += sprintf(at, i >= 4 && i <= 10 && !(i & 1) ? "-%02x" : "%02x",
				      key->value[i]);
		break;
	case RP_BPF_VALUE_FLOAT:
		snprintf(text, VALUE_TEXT_BYTES, "%.*g", key->bytes == 4 ? 9 : 17, float_of(key));
		break;
	case RP_BPF_VALUE_SIGNED:
		snprintf(text, VALUE_TEXT_BYTES, "%" PRId64, (int64_t)number_of(key));
		break;
	default:
		snprintf(text, VALUE_TEXT_BYTES, "%" PRIu64, number_of(key));
	}
}

static struct json_object *value_to_json(const struct rp_bpf_key *key)
{
	char text[VALUE_TEXT_BYTES];

	format_value(key, text);
	if (key->kind == RP_BPF_VALUE_SIGNED)
		return json_object_new_int64((int64_t)number_of(key));
	if (key->kind == RP_BPF_VALUE_UNSIGNED)
		return json_object_new_uint64(number_of(key));
	if (key->kind == RP_BPF_VALUE_FLOAT && strspn(text, "0123456789+-e.") == strlen(text))
		return json_object_new_double_s(float_of(key), text);
	return key->kind == RP_BPF_VALUE_FLOAT ? NULL : rp_json_string(text);
}

/* The values of a slot: `ret_from` is included, `ret_to` is not. */
static void slot_bounds(const struct rp_bpf_view *view, uint32_t slot, double *ret_from,
			double *ret_to)
{
	double at = slot;

	if (view->linear_step) {
		*ret_from = at * (double)view->linear_step;
		*ret_to = (at + 1) * (double)view->linear_step;
	} else if (slot > RP_BPF_LOG2_ZERO) {
		*ret_from = __builtin_ldexp(1, (int)slot - (int)RP_BPF_LOG2_ZERO - 1);
		*ret_to = 2 * *ret_from;
	} else if (slot == RP_BPF_LOG2_ZERO) {
		*ret_from = 0;
		*ret_to = 1;
	} else {
		/*
		 * Move both ends by one: the interval includes the other end for negative values.
		 */
		*ret_to = 1 - __builtin_ldexp(1, (int)RP_BPF_LOG2_ZERO - 1 - (int)slot);
		*ret_from = 2 * *ret_to - 1;
	}
}

static void print_bar(const char *label, uint64_t count, uint64_t most)
{
	char text[RP_TEXT_MAX];
	int width = most ? (int)((double)count / (double)most * BAR_WIDTH + 0.5) : 0;

	printf("%24s %14s |%.*s%*s|\n", label, rp_text_count(count, text), width,
	       "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@", BAR_WIDTH - width, "");
}

/* Finds the first and the last slot with a count. Return: the first; -1 if all are empty. */
static int find_slots(const uint64_t *slots, int *ret_last, uint64_t *ret_most)
{
	int first = -1;

	*ret_last = -1;
	*ret_most = 0;
	for (int i = 0; i < (int)RP_BPF_SLOTS; i++) {
		if (!slots[i])
			continue;
		first = first < 0 ? i : first;
		*ret_last = i;
		*ret_most = slots[i] > *ret_most ? slots[i] : *ret_most;
	}
	return first;
}

static void print_histogram(const struct rp_bpf_view *view)
{
	const struct batch_bpf__bss *bss = view->program->skeleton->bss;
	uint64_t most;
	char label[80];
	int last, first = find_slots(bss->slots, &last, &most);

	if (bss->below)
		print_bar("below 0", bss->below, most);
	for (int i = first; first >= 0 && i <= last; i++) {
		double from, to;

		slot_bounds(view, (uint32_t)i, &from, &to);
		snprintf(label, sizeof(label), "[%.0f, %.0f)", from, to);
		print_bar(label, bss->slots[i], most);
	}
	if (bss->above)
		print_bar("above", bss->above, most);
}

static struct json_object *whole_to_json(double value)
{
	char text[400];

	snprintf(text, sizeof(text), "%.0f", value);
	return json_object_new_double_s(value, text);
}

static void add_bucket(struct rp_rows *rows, struct json_object *from, struct json_object *to,
		       uint64_t count)
{
	rp_rows_add(rows, from, NULL);
	rp_rows_add(rows, to, NULL);
	rp_rows_add_u64(rows, count);
}

/* JSON has the values below and above as two numbers, CSV as rows with one open end. */
static void add_buckets(struct rp_rows *rows, const struct rp_bpf_view *view)
{
	const struct batch_bpf__bss *bss = view->program->skeleton->bss;
	const bool has_ends = rows->format == RP_FORMAT_CSV;
	double from, to;

	if (has_ends && bss->below)
		add_bucket(rows, NULL, whole_to_json(0), bss->below);
	for (uint32_t i = 0; i < RP_BPF_SLOTS; i++) {
		if (!bss->slots[i])
			continue;
		slot_bounds(view, i, &from, &to);
		add_bucket(rows, whole_to_json(from), whole_to_json(to), bss->slots[i]);
	}
	slot_bounds(view, RP_BPF_SLOTS - 1, &from, &to);
	if (has_ends && bss->above)
		add_bucket(rows, whole_to_json(to), NULL, bss->above);
}

static void add_count(struct rp_rows *rows, uint64_t count)
{
	char text[RP_TEXT_MAX];

	rp_rows_add(rows, json_object_new_uint64(count), rp_text_count(count, text));
}

/* JSON has the count of all other events as a number. */
static void add_events(struct rp_rows *rows, const struct rp_bpf_view *view)
{
	const uint64_t *counts = view->program->skeleton->bss->counts;

	for (size_t i = 0; i < view->session->definition_count && i < RP_BPF_EVENTS; i++) {
		const struct rp_bpf_definition *definition = &view->session->definitions[i];

		if (!view->wanted[i] || !counts[i])
			continue;
		add_count(rows, counts[i]);
		rp_rows_add_string(rows, definition->provider);
		rp_rows_add_string(rows, definition->name);
		rp_rows_add_u64(rows, definition->id);
	}
	if (counts[RP_BPF_EVENTS] && rows->format != RP_FORMAT_JSON) {
		add_count(rows, counts[RP_BPF_EVENTS]);
		rp_rows_add(rows, NULL, "");
		rp_rows_add_string(rows, "all others");
		rp_rows_add(rows, NULL, "");
	}
}

static void add_values(struct rp_rows *rows, const struct rp_bpf_view *view)
{
	char text[VALUE_TEXT_BYTES];
	struct show_rows values;

	if (read_rows(view, &values)) {
		rows->failed = true;
		return;
	}
	for (size_t i = 0; i < values.count; i++) {
		add_count(rows, values.rows[i].count);
		format_value(&values.rows[i].key, text);
		rp_rows_add(rows, value_to_json(&values.rows[i].key), text);
	}
	free(values.rows);
}

/* The rows of a mode; the mode that prints events has none. */
static void get_rows(struct rp_rows *rows, const struct rp_bpf_view *view, enum rp_format format)
{
	static const struct rp_column event_columns[] = {
		{ .key = "events", .title = "EVENTS", .is_right = true },
		{ .key = "provider", .title = "PROVIDER" },
		{ .key = "event", .title = "EVENT" },
		{ .key = "id" },
	}, value_columns[] = {
		{ .key = "events", .title = "EVENTS", .is_right = true },
		{ .key = "value", .title = "VALUE" },
	}, bucket_columns[] = {
		{ .key = "from" }, { .key = "to" }, { .key = "events" },
	};

	switch (view->mode) {
	case RP_BPF_COUNT:
		rp_rows_init(rows, format, event_columns, 4);
		add_events(rows, view);
		break;
	case RP_BPF_COUNT_FIELD:
		rp_rows_init(rows, format, value_columns, 2);
		add_values(rows, view);
		break;
	case RP_BPF_HISTOGRAM:
		rp_rows_init(rows, format, bucket_columns, 3);
		add_buckets(rows, view);
		break;
	case RP_BPF_FORWARD:
		rp_rows_init(rows, format, NULL, 0);
	}
}

/* Batches that the process fired without a call of the program. */
static uint64_t missed(const struct rp_bpf_view *view)
{
	const struct rp_bpf_stats *stats = &view->program->skeleton->bss->stats;
	uint64_t seen = stats->seen + stats->unread;

	return view->session->ended && view->session->delivered > seen ?
	       view->session->delivered - seen : 0;
}

static struct json_object *stats_to_json(const struct rp_bpf_view *view)
{
	const struct rp_bpf_stats *stats = &view->program->skeleton->bss->stats;
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{ "delivered", view->session->delivered },
		{ "lost", view->session->lost },
		{ "cut", view->session->cut },
		{ "batches", stats->batches },
		{ "seen", stats->seen },
		{ "unread", stats->unread },
		{ "missed", missed(view) },
		{ "matched", stats->matched },
		{ "without_field", stats->missing },
		{ "dropped", stats->dropped },
	};
	/* Omit the last three without a selection: every event matches. */
	size_t count = sizeof(rows) / sizeof(rows[0]) - (view->mode == RP_BPF_COUNT ? 3 : 0);
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "complete", json_object_new_boolean(view->session->ended));
	for (size_t i = 0; i < count; i++)
		json_object_object_add(object, rows[i].name,
				       json_object_new_uint64(rows[i].value));
	return object;
}

static int print_json(struct rp_rows *rows, const struct rp_bpf_view *view)
{
	static const char *const names[] = {
		[RP_BPF_COUNT] = "events", [RP_BPF_COUNT_FIELD] = "values",
		[RP_BPF_HISTOGRAM] = "buckets",
	};
	const struct batch_bpf__bss *bss = view->program->skeleton->bss;
	struct json_object *out = json_object_new_object();

	if (view->mode != RP_BPF_FORWARD)
		json_object_object_add(out, names[view->mode], rp_rows_take_json(rows));
	if (view->mode == RP_BPF_COUNT)
		json_object_object_add(out, "others",
				       json_object_new_uint64(bss->counts[RP_BPF_EVENTS]));
	if (view->mode == RP_BPF_HISTOGRAM) {
		json_object_object_add(out, "below", json_object_new_uint64(bss->below));
		json_object_object_add(out, "above", json_object_new_uint64(bss->above));
	}
	json_object_object_add(out, "stats", stats_to_json(view));
	if (view->mode != RP_BPF_FORWARD)
		return rp_json_print(out);
	/* One line after the lines of the events. */
	rp_json_put(stdout, out, JSON_C_TO_STRING_NOSLASHESCAPE);
	putchar('\n');
	json_object_put(out);
	return RP_EXIT_OK;
}

int rp_bpf_show(const struct rp_bpf_view *view, enum rp_format format)
{
	int status = RP_EXIT_OK;
	struct rp_rows rows;

	if (format == RP_FORMAT_TEXT && view->mode == RP_BPF_HISTOGRAM) {
		print_histogram(view);
		return RP_EXIT_OK;
	}
	get_rows(&rows, view, format);
	if (format == RP_FORMAT_JSON)
		status = print_json(&rows, view);
	else if (view->mode != RP_BPF_FORWARD)
		status = rp_rows_print(&rows);
	rp_rows_fini(&rows);
	return status;
}

static void print_stat(uint64_t count, const char *what)
{
	char text[RP_TEXT_MAX];

	if (count)
		fprintf(stderr, ", %s %s", rp_text_count(count, text), what);
}

void rp_bpf_show_stats(const struct rp_bpf_view *view)
{
	const struct rp_bpf_stats *stats = &view->program->skeleton->bss->stats;
	char seen[RP_TEXT_MAX], batches[RP_TEXT_MAX], lost[RP_TEXT_MAX];

	fprintf(stderr, "%s in %s, %s lost", rp_text_counted(stats->seen, "event", seen),
		rp_text_counted(stats->batches, "batch", batches),
		rp_text_count(view->session->lost, lost));
	print_stat(stats->unread, "could not be read by BPF");
	print_stat(missed(view), "missed by BPF");
	print_stat(view->session->cut, "cut");
	print_stat(stats->missing, "without the field");
	print_stat(stats->dropped, view->mode == RP_BPF_FORWARD ?
		   "not shown: they were too frequent" : "of values beyond the 10,240 counted");
	fputc('\n', stderr);
}
