/* SPDX-License-Identifier: MIT */
#include "bpf/show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "tool/json.h"
#include "tool/table.h"
#include "tool/text.h"
#include "tool/tool.h"

#define BAR_WIDTH 40
#define VALUE_TEXT_BYTES (RP_BPF_KEY_BYTES + 16)

/* A value of a field and how often it came. */
struct row {
	struct rp_bpf_key key;
	uint64_t count;
};

struct rows {
	struct row *rows;
	size_t count;
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* The values that came most often. Return: 0; -ENOMEM, told. */
static int read_rows(const struct rp_bpf_view *view, struct rows *ret_rows)
{
	int map = bpf_map__fd(view->program->skeleton->maps.keys);
	struct row *rows = calloc(RP_BPF_KEYS, sizeof(*rows));
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
	*ret_rows = (struct rows){ rows, count < view->top ? count : (size_t)view->top };
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

/* The values of a slot: from `ret_from` on, below `ret_to`. */
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
		/* Both ends moved by one: what is closed for positive values is open here. */
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

/* The slots from the first that holds something to the last; -1: none does. */
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

static struct json_object *histogram_to_json(const struct rp_bpf_view *view)
{
	const struct batch_bpf__bss *bss = view->program->skeleton->bss;
	struct json_object *buckets = json_object_new_array();

	for (uint32_t i = 0; i < RP_BPF_SLOTS; i++) {
		struct json_object *bucket;
		double from, to;

		if (!bss->slots[i])
			continue;
		slot_bounds(view, i, &from, &to);
		bucket = json_object_new_object();
		json_object_object_add(bucket, "from", whole_to_json(from));
		json_object_object_add(bucket, "to", whole_to_json(to));
		json_object_object_add(bucket, "count", json_object_new_uint64(bss->slots[i]));
		json_object_array_add(buckets, bucket);
	}
	return buckets;
}

static int print_events(const struct rp_bpf_view *view)
{
	static const char *const titles[] = { "EVENTS", "PROVIDER", "EVENT", NULL };
	const uint64_t *counts = view->program->skeleton->bss->counts;
	char text[RP_TEXT_MAX];
	struct rp_table table;
	int ret;

	rp_table_init(&table, titles, "rll");
	for (size_t i = 0; i < view->session->definition_count && i < RP_BPF_EVENTS; i++) {
		if (!view->wanted[i] || !counts[i])
			continue;
		rp_table_add(&table, rp_text_count(counts[i], text));
		rp_table_add(&table, view->session->definitions[i].provider);
		rp_table_add(&table, view->session->definitions[i].name);
	}
	if (counts[RP_BPF_EVENTS]) {
		rp_table_add(&table, rp_text_count(counts[RP_BPF_EVENTS], text));
		rp_table_add(&table, "");
		rp_table_add(&table, "all others");
	}
	ret = rp_table_print(&table);
	rp_table_fini(&table);
	return ret ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

static struct json_object *events_to_json(const struct rp_bpf_view *view)
{
	const uint64_t *counts = view->program->skeleton->bss->counts;
	struct json_object *events = json_object_new_array();

	for (size_t i = 0; i < view->session->definition_count && i < RP_BPF_EVENTS; i++) {
		const struct rp_bpf_definition *definition = &view->session->definitions[i];
		struct json_object *event;

		if (!view->wanted[i])
			continue;
		event = json_object_new_object();
		json_object_object_add(event, "provider", rp_json_string(definition->provider));
		json_object_object_add(event, "event", rp_json_string(definition->name));
		json_object_object_add(event, "id", json_object_new_uint64(definition->id));
		json_object_object_add(event, "count", json_object_new_uint64(counts[i]));
		json_object_array_add(events, event);
	}
	return events;
}

static int print_values(const struct rp_bpf_view *view)
{
	static const char *const titles[] = { "EVENTS", "VALUE", NULL };
	char text[VALUE_TEXT_BYTES];
	struct rp_table table;
	struct rows rows;
	int ret = read_rows(view, &rows);

	if (ret)
		return RP_EXIT_FAILURE;
	rp_table_init(&table, titles, "rl");
	for (size_t i = 0; i < rows.count; i++) {
		rp_table_add(&table, rp_text_count(rows.rows[i].count, text));
		format_value(&rows.rows[i].key, text);
		rp_table_add(&table, text);
	}
	ret = rp_table_print(&table);
	rp_table_fini(&table);
	free(rows.rows);
	return ret ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

static struct json_object *values_to_json(const struct rp_bpf_view *view)
{
	struct json_object *values = json_object_new_array();
	struct rows rows;

	if (read_rows(view, &rows))
		return values;
	for (size_t i = 0; i < rows.count; i++) {
		struct json_object *value = json_object_new_object();

		json_object_object_add(value, "value", value_to_json(&rows.rows[i].key));
		json_object_object_add(value, "count", json_object_new_uint64(rows.rows[i].count));
		json_object_array_add(values, value);
	}
	free(rows.rows);
	return values;
}

/* Batches that were fired while the program was not called. */
static uint64_t missed(const struct rp_bpf_view *view)
{
	const struct rp_bpf_account *account = &view->program->skeleton->bss->account;
	uint64_t seen = account->seen + account->unread;

	return view->session->ended && view->session->delivered > seen ?
	       view->session->delivered - seen : 0;
}

static struct json_object *account_to_json(const struct rp_bpf_view *view)
{
	const struct rp_bpf_account *account = &view->program->skeleton->bss->account;
	const struct {
		const char *name;
		uint64_t value;
	} figures[] = {
		{ "delivered", view->session->delivered },
		{ "lost", view->session->lost },
		{ "cut", view->session->cut },
		{ "batches", account->batches },
		{ "seen", account->seen },
		{ "unread", account->unread },
		{ "missed", missed(view) },
		{ "matched", account->matched },
		{ "without_field", account->missing },
		{ "dropped", account->dropped },
	};
	/* The last three are of what was asked for, which here is everything. */
	size_t count = sizeof(figures) / sizeof(figures[0]) - (view->mode == RP_BPF_COUNT ? 3 : 0);
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "complete", json_object_new_boolean(view->session->ended));
	for (size_t i = 0; i < count; i++)
		json_object_object_add(object, figures[i].name,
				       json_object_new_uint64(figures[i].value));
	return object;
}

int rp_bpf_show_json(const struct rp_bpf_view *view)
{
	const struct batch_bpf__bss *bss = view->program->skeleton->bss;
	struct json_object *out = json_object_new_object();

	switch (view->mode) {
	case RP_BPF_COUNT:
		json_object_object_add(out, "events", events_to_json(view));
		json_object_object_add(out, "others",
				       json_object_new_uint64(bss->counts[RP_BPF_EVENTS]));
		break;
	case RP_BPF_COUNT_FIELD:
		json_object_object_add(out, "values", values_to_json(view));
		break;
	case RP_BPF_HISTOGRAM:
		json_object_object_add(out, "buckets", histogram_to_json(view));
		json_object_object_add(out, "below", json_object_new_uint64(bss->below));
		json_object_object_add(out, "above", json_object_new_uint64(bss->above));
		break;
	case RP_BPF_FORWARD:
		break;
	}
	json_object_object_add(out, "account", account_to_json(view));
	if (view->mode != RP_BPF_FORWARD)
		return rp_json_print(out);
	/* One line behind those of the events. */
	rp_json_put(stdout, out, JSON_C_TO_STRING_NOSLASHESCAPE);
	putchar('\n');
	json_object_put(out);
	return RP_EXIT_OK;
}

int rp_bpf_show_text(const struct rp_bpf_view *view)
{
	switch (view->mode) {
	case RP_BPF_COUNT:
		return print_events(view);
	case RP_BPF_COUNT_FIELD:
		return print_values(view);
	case RP_BPF_HISTOGRAM:
		print_histogram(view);
		break;
	case RP_BPF_FORWARD:
		break;
	}
	return RP_EXIT_OK;
}

static void print_figure(uint64_t count, const char *what)
{
	char text[RP_TEXT_MAX];

	if (count)
		fprintf(stderr, ", %s %s", rp_text_count(count, text), what);
}

void rp_bpf_show_account(const struct rp_bpf_view *view)
{
	const struct rp_bpf_account *account = &view->program->skeleton->bss->account;
	char seen[RP_TEXT_MAX], batches[RP_TEXT_MAX], lost[RP_TEXT_MAX];

	fprintf(stderr, "%s events in %s batches, %s lost", rp_text_count(account->seen, seen),
		rp_text_count(account->batches, batches), rp_text_count(view->session->lost, lost));
	print_figure(account->unread, "could not be read by BPF");
	print_figure(missed(view), "missed by BPF");
	print_figure(view->session->cut, "cut");
	print_figure(account->missing, "without the field");
	print_figure(account->dropped, view->mode == RP_BPF_FORWARD ?
		     "not shown: they came too fast" : "of values beyond the 10,240 counted");
	fputc('\n', stderr);
}
