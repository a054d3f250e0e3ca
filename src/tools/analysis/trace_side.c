/* SPDX-License-Identifier: MIT */
#include "tools/analysis/trace_side.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cursor.h"
#include "tools/trace/system_event.h"

static int compare_keys(const void *left, const void *right)
{
	const struct rp_side_key *a = left, *b = right;
	int order = (a->kind > b->kind) - (a->kind < b->kind);

	for (size_t i = 0; !order && i < sizeof(a->texts) / sizeof(a->texts[0]); i++)
		order = strcmp(a->texts[i], b->texts[i]);
	if (!order)
		order = (a->quantile > b->quantile) - (a->quantile < b->quantile);
	if (!order)
		order = a->is_rate - b->is_rate;
	return order ? order : a->is_instrument - b->is_instrument;
}

/* Return: the item, whose texts are those of the first key; NULL: no memory. */
static struct rp_side_item *get_item(struct rp_trace_side *side, const struct rp_side_key *key)
{
	struct rp_side_item **found, **grown, *item;

	for (size_t i = 0; i < sizeof(key->texts) / sizeof(key->texts[0]); i++) {
		if (!key->texts[i])
			return NULL;
	}
	/* An item begins with its key. */
	found = tfind(key, &side->tree, compare_keys);
	if (found)
		return *found;
	grown = rp_array_reserve(side->items, side->count, &side->capacity, 1, sizeof(*grown));
	if (!grown)
		return NULL;
	side->items = grown;
	item = calloc(1, sizeof(*item));
	if (!item)
		return NULL;
	item->key = *key;
	if (!tsearch(item, &side->tree, compare_keys)) {
		free(item);
		return NULL;
	}
	return side->items[side->count++] = item;
}

/* Return: the slot of a number in a growing array of items; NULL: no memory. */
static struct rp_side_item **slot_of(struct rp_side_item ***slots, size_t *capacity, size_t index)
{
	const size_t old = *capacity;
	struct rp_side_item **grown;

	if (index < old)
		return &(*slots)[index];
	grown = rp_array_reserve(*slots, old, capacity, index - old + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	memset(&grown[old], 0, (*capacity - old) * sizeof(*grown));
	*slots = grown;
	return &grown[index];
}

static int add_duration(struct rp_trace_side *side, struct rp_side_item *item, int64_t start_ns,
			uint64_t ns)
{
	const int64_t first_ns = side->profile.first_ns;
	const uint64_t at = start_ns > first_ns ? (uint64_t)start_ns - (uint64_t)first_ns : 0;

	item->count++;
	side->totals[item->key.kind]++;
	if (side->interval_ns && at / side->interval_ns < side->interval_count)
		item->counts[at / side->interval_ns]++;
	return rp_latency_add(&item->latency, ns);
}

static int take_span(const struct rp_trace_span *span, void *data)
{
	struct rp_trace_side *side = data;
	struct rp_side_item **slot = slot_of(&side->by_span, &side->span_capacity,
					     span->name->index);

	if (slot && !*slot)
		*slot = get_item(side, &(struct rp_side_key){
			.kind = RP_SIDE_SPAN,
			.texts = { span->name->provider, span->name->name, "", "" },
		});
	if (!slot || !*slot)
		return -ENOMEM;
	(*slot)->errors += span->has_error;
	return add_duration(side, *slot, span->start_ns,
			    (uint64_t)span->stop_ns - (uint64_t)span->start_ns);
}

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "";
}

/* Return: the item of the innermost function of the event's stack; NULL: no stack, or no memory. */
static struct rp_side_item *function_of(struct rp_trace_side *side, enum rp_side_kind kind,
					const struct rp_reader_event *event, uint64_t process,
					int *ret)
{
	static const struct rp_call_weight weight = { .count = 1 };
	const struct rp_call_tree *tree = &side->profile.tree;
	const size_t list = kind == RP_SIDE_OFFCPU;
	struct rp_side_item **slot;
	uint32_t group, node, number;

	side->profile.has_kernel = kind == RP_SIDE_CPU;
	*ret = rp_profile_add(&side->profile, event, process, &weight, &group, &node);
	if (*ret || node == RP_CALL_NONE)
		return NULL;
	number = tree->nodes[node].function;
	slot = slot_of(&side->by_function[list], &side->function_capacity[list], number);
	if (slot && !*slot) {
		const struct rp_call_function *function = &tree->functions[number];

		*slot = get_item(side, &(struct rp_side_key){
			.kind = kind, .texts = { function->name ? function->name : "",
						 base_name(function->file), "", "" },
		});
	}
	*ret = slot && *slot ? 0 : -ENOMEM;
	return slot ? *slot : NULL;
}

static int take_sample(struct rp_trace_side *side, const struct rp_reader_event *event,
		       uint64_t process)
{
	struct rp_side_item *item;
	int ret;

	side->totals[RP_SIDE_CPU]++;
	item = function_of(side, RP_SIDE_CPU, event, process, &ret);
	if (item)
		item->count++;
	return ret;
}

static int take_wait(struct rp_trace_side *side, const struct rp_reader_event *event,
		     uint64_t process)
{
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	const uint64_t ns = rp_system_take_number(&payload);
	struct rp_side_item *item;
	int ret;

	item = function_of(side, RP_SIDE_OFFCPU, event, process, &ret);
	return item ? add_duration(side, item, event->time_ns, ns) : ret;
}

static int take_event(struct rp_trace_side *side, const struct rp_reader_event *event,
		      uint64_t process)
{
	int ret = 0;

	side->spans.where = side->where;
	if (side->kinds[RP_SIDE_SPAN])
		ret = rp_trace_spans_take(&side->spans, event);
	if (!rp_time_range_has(&side->profile.range, event->time_ns) ||
	    (side->where && !rp_expression_matches(side->where, event, process)))
		return ret;
	if (ret == 0 && side->kinds[RP_SIDE_COUNTER])
		ret = rp_counter_set_take(&side->counters, event, process);
	if (ret == 0 && side->kinds[RP_SIDE_CPU] && rp_profile_is_sample(&side->profile, event))
		ret = take_sample(side, event, process);
	if (ret == 0 && side->kinds[RP_SIDE_OFFCPU] &&
	    rp_profile_classify(event) == RP_PROFILE_SWITCH)
		ret = take_wait(side, event, process);
	return ret;
}

/* The processes of a name have one item for a counter. */
static int take_series(struct rp_trace_side *side, const struct rp_counter_series *series)
{
	const char *process = rp_symbols_process(&side->profile.symbols, series->process,
						 series->last_ns);
	struct rp_side_item *item = get_item(side, &(struct rp_side_key){
		.kind = RP_SIDE_COUNTER,
		.texts = { process ? process : "", series->provider, series->name, series->tags },
		.quantile = series->quantile, .is_rate = series->is_rate,
		.is_instrument = series->is_instrument,
	});
	double *grown = item && series->point_count ?
			rp_array_reserve(item->values, item->count, &item->value_capacity,
					 series->point_count, sizeof(*grown)) : NULL;

	if (!item || (series->point_count && !grown))
		return -ENOMEM;
	item->unit = series->unit;
	item->values = grown ? grown : item->values;
	for (size_t i = 0; i < series->point_count; i++)
		item->values[item->count++] = series->points[i].value;
	side->totals[RP_SIDE_COUNTER] += series->point_count;
	return 0;
}

int rp_trace_side_init(struct rp_trace_side *side, const char *path,
		       const struct rp_time_range *range)
{
	memset(side, 0, sizeof(*side));
	side->spans.visit = take_span;
	side->spans.data = side;
	side->spans.range = &side->profile.range;
	return rp_profile_init(&side->profile, RP_PROFILE_BY_FUNCTION, path, range);
}

void rp_trace_sides_divide(struct rp_trace_side *a, struct rp_trace_side *b)
{
	struct rp_trace_side *const sides[] = { a, b };
	uint64_t period[2], shorter;

	for (size_t i = 0; i < 2; i++) {
		const struct rp_profile *profile = &sides[i]->profile;

		period[i] = profile->last_ns > profile->first_ns ?
			    (uint64_t)profile->last_ns - (uint64_t)profile->first_ns : 0;
	}
	shorter = period[0] < period[1] ? period[0] : period[1];
	for (size_t i = 0; i < 2; i++) {
		const uint64_t interval = shorter / RP_SIDE_INTERVALS;
		const uint64_t count = interval ? period[i] / interval : 0;

		sides[i]->interval_ns = interval;
		sides[i]->interval_count = count < RP_SIDE_INTERVALS_MAX ? (uint32_t)count :
								RP_SIDE_INTERVALS_MAX;
	}
}

int rp_trace_side_read(struct rp_trace_side *side, struct rp_reader *reader)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	uint64_t process;
	int ret;

	rp_profile_set_reader(&side->profile, reader);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		ret = rp_profile_process(&side->profile, &event, &process);
		event.process = process;
		if (ret == 0)
			ret = take_event(side, &event, process);
		if (ret)
			return ret;
		if (rp_trace_spans_are_complete(&side->spans, reader))
			break;
	}
	rp_counter_set_sort(&side->counters);
	for (size_t i = 0; i < side->counters.count; i++) {
		if (take_series(side, side->counters.series[i]))
			return -ENOMEM;
	}
	return ret;
}

const struct rp_side_item *rp_trace_side_find(const struct rp_trace_side *side,
					      const struct rp_side_key *key)
{
	struct rp_side_item **found = tfind(key, &side->tree, compare_keys);

	return found ? *found : NULL;
}

static void keep(void *node)
{
	(void)node;
}

void rp_trace_side_fini(struct rp_trace_side *side)
{
	tdestroy(side->tree, keep);
	for (size_t i = 0; i < side->count; i++) {
		rp_latency_fini(&side->items[i]->latency);
		free(side->items[i]->values);
		free(side->items[i]);
	}
	free(side->items);
	free(side->by_span);
	free(side->by_function[0]);
	free(side->by_function[1]);
	rp_counter_set_fini(&side->counters);
	rp_trace_spans_fini(&side->spans);
	rp_profile_fini(&side->profile);
}
