/* SPDX-License-Identifier: MIT */
#include "tools/trace/trace_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json.h>

#include "base/array.h"
#include "base/cursor.h"
#include "tools/trace/dotnet_method.h"
#include "tools/trace/input.h"
#include "tools/trace/machine_events.h"
#include "tools/trace/symbol_range.h"
#include "tools/trace/system_event.h"
#include "tools/trace/trace_index.h"

/*
 * The ranges that one lookup examines at most: the last ones that start at the address or before.
 * Ranges of real traces hardly overlap; a hostile trace must not make lookups slow.
 */
#define EXAMINED_MAX 64u

/* A name of a process, or its end. */
struct rp_symbol_process {
	uint64_t process;
	int64_t time_ns;
	size_t reported;
	const char *name;		/* NULL: it ended */
	uint32_t life;			/* how many processes had the id before */
};

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int take_text(struct rp_symbols *symbols, struct rp_cursor *payload, const char **ret_text)
{
	char *text = rp_system_take_text(payload);

	*ret_text = text ? rp_text_pool_add(&symbols->texts, text) : NULL;
	free(text);
	return *ret_text ? 0 : rp_cursor_failed(payload) ? -EBADMSG : -ENOMEM;
}

static int add_range(struct rp_symbols *symbols, struct rp_symbol_ranges *ranges,
		     const struct rp_symbol_range *range)
{
	struct rp_symbol_range *grown;

	if (range->last < range->start)
		return 0;
	if (symbols->mappings.count + symbols->functions.count + symbols->metadata.count >=
	    RP_SYMBOLS_MAX) {
		symbols->ignored++;
		return 0;
	}
	grown = rp_array_reserve(ranges->rows, ranges->count, &ranges->capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	ranges->rows = grown;
	grown[ranges->count] = *range;
	grown[ranges->count].reported = ranges->count;
	ranges->count++;
	return 0;
}

static int take_mapping(struct rp_symbols *symbols, struct rp_cursor payload,
			struct rp_symbol_range range)
{
	int ret;

	range.id = rp_system_take_number(&payload);
	range.start = rp_system_take_number(&payload);
	range.last = rp_system_take_number(&payload);
	range.last -= range.last > 0;
	range.offset = rp_system_take_number(&payload);
	ret = take_text(symbols, &payload, &range.name);
	if (ret)
		return ret;
	range.metadata = rp_system_take_number(&payload);
	return add_range(symbols, &symbols->mappings, &range);
}

static int take_function(struct rp_symbols *symbols, struct rp_cursor payload,
			 struct rp_symbol_range range)
{
	int ret;

	(void)rp_system_take_number(&payload);
	range.id = rp_system_take_number(&payload);
	range.start = rp_system_take_number(&payload);
	range.last = rp_system_take_number(&payload);
	ret = take_text(symbols, &payload, &range.name);
	if (ret)
		return ret;
	return add_range(symbols, &symbols->functions, &range);
}

/* Code that a runtime generated is in no mapping of a file. */
static int take_method(struct rp_symbols *symbols, const struct rp_reader_event *event,
		       struct rp_symbol_range range)
{
	struct rp_dotnet_method method;
	int ret = rp_dotnet_method_read(event, &method);

	if (ret)
		return ret == -EBADMSG ? 0 : ret;
	range.start = method.start;
	range.last = method.last;
	range.name = rp_text_pool_add(&symbols->texts, method.name);
	free(method.name);
	return range.name ? add_range(symbols, &symbols->functions, &range) : -ENOMEM;
}

/* Return: the pool's copy of the build id in the JSON text; NULL: it has none, or no memory. */
static const char *parse_build_id(struct rp_symbols *symbols, const char *text)
{
	struct json_object *json = json_tokener_parse(text), *value;
	const char *build_id = NULL;

	if (json_object_object_get_ex(json, "build_id", &value) &&
	    json_object_is_type(value, json_type_string) && json_object_get_string_len(value))
		build_id = rp_text_pool_add(&symbols->texts, json_object_get_string(value));
	json_object_put(json);
	return build_id;
}

static int take_metadata(struct rp_symbols *symbols, struct rp_cursor payload,
			 struct rp_symbol_range range)
{
	char *text;

	range.start = range.last = rp_system_take_number(&payload);
	text = rp_system_take_text(&payload);
	range.name = text ? parse_build_id(symbols, text) : NULL;
	free(text);
	return range.name ? add_range(symbols, &symbols->metadata, &range) : 0;
}

static int add_process(struct rp_symbols *symbols, uint64_t process, int64_t time_ns,
		       const char *name)
{
	struct rp_symbol_process *grown;

	if (symbols->process_count >= RP_SYMBOLS_MAX) {
		symbols->ignored++;
		return 0;
	}
	grown = rp_array_reserve(symbols->processes, symbols->process_count,
				 &symbols->process_capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	symbols->processes = grown;
	grown[symbols->process_count] = (struct rp_symbol_process){
		.process = process, .time_ns = time_ns, .name = name,
		.reported = symbols->process_count,
	};
	symbols->process_count++;
	return 0;
}

static int take_process(struct rp_symbols *symbols, struct rp_cursor payload, uint64_t process,
			int64_t time_ns)
{
	const char *name;
	int ret;

	(void)rp_system_take_number(&payload);
	ret = take_text(symbols, &payload, &name);
	return ret ? ret : add_process(symbols, process, time_ns, name);
}

/* `ringpipe record` describes the machine, but not its own process. perf.data has no recorder. */
static bool is_of_recorder(const struct rp_reader_event *event, uint64_t process)
{
	const struct rp_definition *description = &rp_machine_definitions[RP_MACHINE_DESCRIPTION];

	return process && event->type->id == description->id &&
	       !strcmp(event->type->provider, description->provider);
}

int rp_symbols_take(struct rp_symbols *symbols, const struct rp_reader_event *event)
{
	const struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	struct rp_symbol_range range = { .time_ns = event->time_ns };
	int ret = rp_processes_follow_id(&symbols->tree, event, &range.process);

	if (ret == 0 && rp_dotnet_is_method(event->type))
		return take_method(symbols, event, range);
	if (ret == 0 && is_of_recorder(event, range.process))
		return add_process(symbols, range.process, event->time_ns, "ringpipe-record");
	if (ret || event->type->field_count || !rp_system_is_event(event))
		return ret;
	switch (event->type->id) {
	case RP_SYSTEM_EXISTING_PROCESS:
	case RP_SYSTEM_PROCESS_CREATE:
		ret = take_process(symbols, payload, range.process, event->time_ns);
		break;
	case RP_SYSTEM_PROCESS_EXIT:
		ret = add_process(symbols, range.process, event->time_ns, NULL);
		break;
	case RP_SYSTEM_MAPPING:
		ret = take_mapping(symbols, payload, range);
		break;
	case RP_SYSTEM_FUNCTION:
		ret = take_function(symbols, payload, range);
		break;
	case RP_SYSTEM_METADATA:
		ret = take_metadata(symbols, payload, range);
		break;
	default:
		break;
	}
	return ret == -EBADMSG ? 0 : ret;
}

static int compare_processes(const void *left, const void *right)
{
	const struct rp_symbol_process *a = left, *b = right;
	int order = compare_numbers(a->process, b->process);

	if (order == 0)
		order = (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
	return order ? order : compare_numbers(a->reported, b->reported);
}

static int compare_ranges(const void *left, const void *right)
{
	const struct rp_symbol_range *a = left, *b = right;
	int order = compare_numbers(a->process, b->process);

	if (order == 0)
		order = compare_numbers(a->start, b->start);
	return order ? order : compare_numbers(a->reported, b->reported);
}

static int compare_ids(const void *left, const void *right)
{
	const struct rp_symbol_range *a = *(void *const *)left, *b = *(void *const *)right;
	int order = compare_numbers(a->id, b->id);

	return order ? order : compare_ranges(a, b);
}

/* Return: the index of the first row of a process after the time. */
static size_t row_after(const struct rp_symbols *symbols, uint64_t process, int64_t time_ns)
{
	const struct rp_symbol_process *rows = symbols->processes;

	return RP_PARTITION_POINT(i, symbols->process_count, rows[i].process < process ||
				  (rows[i].process == process && rows[i].time_ns <= time_ns));
}

/* An end at the time itself belongs to the life that ends. */
static uint32_t life_at(const struct rp_symbols *symbols, uint64_t process, int64_t time_ns)
{
	size_t after = row_after(symbols, process, time_ns);

	while (after > 0 && symbols->processes[after - 1].process == process) {
		const struct rp_symbol_process *row = &symbols->processes[after - 1];

		if (row->name || row->time_ns < time_ns)
			return row->life + !row->name;
		after--;
	}
	return 0;
}

/* Whether the process ended before the time, and the trace names no later one up to the time. */
static bool has_just_ended(const struct rp_symbols *symbols, uint64_t process, int64_t time_ns)
{
	const size_t after = row_after(symbols, process, time_ns);
	const struct rp_symbol_process *row = after ? &symbols->processes[after - 1] : NULL;

	return row && row->process == process && !row->name && row->time_ns < time_ns;
}

/* Whether the trace has at most one process with the id. */
static bool has_one_life(const struct rp_symbols *symbols, uint64_t process)
{
	const size_t after = row_after(symbols, process, INT64_MAX);

	return !after || symbols->processes[after - 1].process != process ||
	       !symbols->processes[after - 1].life;
}

/* A process still runs in the kernel for a moment after the trace reports its end. */
uint32_t rp_symbols_life(const struct rp_symbols *symbols, uint64_t process, int64_t time_ns)
{
	return life_at(symbols, process, time_ns) - has_just_ended(symbols, process, time_ns);
}

static void number_lives(struct rp_symbols *symbols)
{
	struct rp_symbol_process *rows = symbols->processes;

	if (symbols->process_count)
		qsort(rows, symbols->process_count, sizeof(*rows), compare_processes);
	for (size_t i = 1; i < symbols->process_count; i++) {
		if (rows[i].process == rows[i - 1].process)
			rows[i].life = rows[i - 1].life + (!rows[i - 1].name && rows[i].name);
	}
}

static void sort_ranges(const struct rp_symbols *symbols, struct rp_symbol_ranges *ranges)
{
	struct rp_symbol_range *rows = ranges->rows;

	if (ranges->count)
		qsort(rows, ranges->count, sizeof(*rows), compare_ranges);
	for (size_t i = 0; i < ranges->count; i++) {
		const bool is_next = i > 0 && rows[i].process == rows[i - 1].process;

		rows[i].furthest = is_next && rows[i - 1].furthest > rows[i].last ?
				   rows[i - 1].furthest : rows[i].last;
		rows[i].life = life_at(symbols, rows[i].process, rows[i].time_ns);
	}
}

/* Return: the mapping of a process with the id; NULL: it is not in the trace. */
static const struct rp_symbol_range *mapping_with_id(const struct rp_symbols *symbols,
						     uint64_t process, uint64_t id)
{
	struct rp_symbol_range *const *rows = symbols->by_id;
	const size_t at = RP_PARTITION_POINT(i, symbols->mappings.count, rows[i]->id < id ||
					     (rows[i]->id == id && rows[i]->process < process));

	if (at == symbols->mappings.count || rows[at]->id != id || rows[at]->process != process)
		return NULL;
	return rows[at];
}

/*
 * Return: the number of rows of lower processes, and of rows of this process that start at the
 * address or before.
 */
static size_t rows_before(const struct rp_symbol_ranges *ranges, uint64_t process,
			  uint64_t address)
{
	const struct rp_symbol_range *rows = ranges->rows;

	return RP_PARTITION_POINT(i, ranges->count, rows[i].process < process ||
				  (rows[i].process == process && rows[i].start <= address));
}

static void add_build_ids(struct rp_symbols *symbols)
{
	const struct rp_symbol_ranges *metadata = &symbols->metadata;

	for (size_t i = 0; i < symbols->mappings.count; i++) {
		struct rp_symbol_range *row = &symbols->mappings.rows[i];
		const size_t before = rows_before(metadata, row->process, row->metadata);

		if (row->metadata && before > 0 &&
		    metadata->rows[before - 1].process == row->process &&
		    metadata->rows[before - 1].start == row->metadata)
			row->build_id = metadata->rows[before - 1].name;
	}
}

int rp_symbols_sort(struct rp_symbols *symbols)
{
	const size_t count = symbols->mappings.count;
	struct rp_symbol_range **by_id = reallocarray(symbols->by_id, count + 1, sizeof(*by_id));

	if (!by_id)
		return -ENOMEM;
	symbols->by_id = by_id;
	rp_processes_sort(&symbols->tree);
	number_lives(symbols);
	sort_ranges(symbols, &symbols->mappings);
	sort_ranges(symbols, &symbols->functions);
	sort_ranges(symbols, &symbols->metadata);
	add_build_ids(symbols);
	for (size_t i = 0; i < count; i++)
		by_id[i] = &symbols->mappings.rows[i];
	qsort(by_id, count, sizeof(*by_id), compare_ids);
	for (size_t i = 0; i < symbols->functions.count; i++) {
		struct rp_symbol_range *row = &symbols->functions.rows[i];

		row->mapping = mapping_with_id(symbols, row->process, row->id);
	}
	return 0;
}

int rp_symbols_read(struct rp_symbols *symbols, const char *path,
		    const struct rp_time_range *range, rp_symbols_visit visit, void *data)
{
	struct rp_trace_query query = rp_time_range_query(range);
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	struct rp_input input;
	int ret = rp_input_open(&input, path, -1, &reader);

	if (ret)
		return ret;
	if (!visit) {
		query.from_ns = INT64_MAX;
		query.to_ns = INT64_MIN;
	}
	if (rp_input_can_seek(&input))
		ret = rp_trace_index_select_stored(path, input.fd, &query, reader);
	else
		ret = rp_trace_index_select(NULL, &query, reader);
	while (ret == 0 && rp_reader_next(reader, &event) == 1) {
		ret = rp_symbols_take(symbols, &event);
		if (ret == 0 && visit)
			ret = visit(&event, data);
	}
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret ? ret : rp_symbols_sort(symbols);
}

/*
 * Step back to the next row that contains the address. `at` is a number of rows, and becomes the
 * number before the row found. Return: the row; NULL: there is none.
 */
static const struct rp_symbol_range *next_row(const struct rp_symbol_ranges *ranges,
					      uint64_t process, uint64_t address, size_t *at,
					      unsigned int *examined)
{
	while (*at > 0 && *examined < EXAMINED_MAX) {
		const struct rp_symbol_range *row = &ranges->rows[*at - 1];

		if (row->process != process || row->furthest < address)
			return NULL;
		--*at;
		++*examined;
		if (row->last >= address)
			return row;
	}
	return NULL;
}

/* Whether a mapping suits the time better than another one of the same life. */
static bool is_nearer(const struct rp_symbol_range *row, const struct rp_symbol_range *best,
		      int64_t time_ns)
{
	const bool is_earlier = row->time_ns <= time_ns;

	if (!best || is_earlier != (best->time_ns <= time_ns))
		return !best || is_earlier;
	if (row->time_ns != best->time_ns)
		return is_earlier == (row->time_ns > best->time_ns);
	return is_earlier == (row->reported > best->reported);
}

/* @found: increased by the mappings of any time that contain the address. */
static const struct rp_symbol_range *find_mapping(const struct rp_symbols *symbols,
						  uint64_t process, int64_t time_ns,
						  uint64_t address, uint32_t life,
						  unsigned int *found)
{
	size_t at = rows_before(&symbols->mappings, process, address);
	const struct rp_symbol_range *row, *best = NULL;
	unsigned int examined = 0;

	while ((row = next_row(&symbols->mappings, process, address, &at, &examined))) {
		++*found;
		if (row->life == life && is_nearer(row, best, time_ns))
			best = row;
	}
	return best;
}

/*
 * Whether a function of one mapping is at the same address in another one. Two recordings of one
 * process, merged, have each mapping twice.
 */
static bool is_same_code(const struct rp_symbol_range *a, const struct rp_symbol_range *b)
{
	return a == b || (a->name == b->name && a->start - a->offset == b->start - b->offset);
}

/* A function without a mapping in the trace belongs to all; as does an address without one. */
static bool is_of_mapping(const struct rp_symbol_range *function,
			  const struct rp_symbol_range *mapping, uint32_t life)
{
	if (!function->mapping)
		return true;
	return mapping ? is_same_code(function->mapping, mapping) : function->mapping->life == life;
}

static const struct rp_symbol_range *find_function(const struct rp_symbols *symbols,
						   uint64_t process, uint64_t address,
						   const struct rp_symbol_range *mapping,
						   uint32_t life)
{
	size_t at = rows_before(&symbols->functions, process, address);
	const struct rp_symbol_range *row;
	unsigned int examined = 0;

	while ((row = next_row(&symbols->functions, process, address, &at, &examined))) {
		if (is_of_mapping(row, mapping, life))
			return row;
	}
	return NULL;
}

void rp_symbols_resolve(const struct rp_symbols *symbols, uint64_t process, int64_t time_ns,
			uint64_t address, struct rp_symbol *ret_symbol)
{
	uint32_t life = rp_symbols_life(symbols, process, time_ns);
	unsigned int found = 0, again = 0;
	const struct rp_symbol_range *mapping = find_mapping(symbols, process, time_ns, address,
							     life, &found);
	const struct rp_symbol_range *function;

	/* The trace may name the next process late. */
	if (!mapping && has_just_ended(symbols, process, time_ns))
		mapping = find_mapping(symbols, process, time_ns, address, ++life, &again);
	function = find_function(symbols, process, address, mapping, life);
	*ret_symbol = (struct rp_symbol){
		.is_constant = found == (mapping != NULL) && has_one_life(symbols, process),
	};
	if (mapping) {
		ret_symbol->file = *mapping->name ? mapping->name : NULL;
		ret_symbol->file_offset = address - mapping->start + mapping->offset;
		ret_symbol->mapping_start = mapping->start;
		ret_symbol->build_id = mapping->build_id;
	}
	if (function) {
		ret_symbol->function = function->name;
		ret_symbol->function_start = function->start;
	}
}

const char *rp_symbols_process(const struct rp_symbols *symbols, uint64_t process, int64_t time_ns)
{
	const uint32_t life = life_at(symbols, process, time_ns);
	const struct rp_symbol_process *rows = symbols->processes;
	size_t after = row_after(symbols, process, time_ns);

	for (size_t i = after; i > 0 && rows[i - 1].process == process &&
			       rows[i - 1].life == life; i--) {
		if (rows[i - 1].name)
			return rows[i - 1].name;
	}
	for (; after < symbols->process_count && rows[after].process == process; after++) {
		if (rows[after].name)
			return rows[after].life == life ? rows[after].name : NULL;
	}
	for (size_t i = after; i > 0 && rows[i - 1].process == process; i--) {
		if (rows[i - 1].name)
			return rows[i - 1].name;
	}
	return NULL;
}

const char *rp_symbols_life_name(const struct rp_symbols *symbols, uint64_t process, uint32_t life,
				 int64_t time_ns)
{
	const struct rp_symbol_process *rows = symbols->processes;

	for (size_t i = row_after(symbols, process, time_ns);
	     i > 0 && rows[i - 1].process == process; i--) {
		if (rows[i - 1].life == life && rows[i - 1].name)
			return rows[i - 1].name;
	}
	return rp_symbols_process(symbols, process, time_ns);
}

void rp_symbols_fini(struct rp_symbols *symbols)
{
	free(symbols->mappings.rows);
	free(symbols->functions.rows);
	free(symbols->metadata.rows);
	free(symbols->processes);
	free(symbols->by_id);
	rp_text_pool_fini(&symbols->texts);
	rp_processes_fini(&symbols->tree);
	*symbols = (struct rp_symbols){ 0 };
}
