/* SPDX-License-Identifier: MIT */
#include "tools/trace/hot_functions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/cli/display_text.h"
#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/trace/stack_frame.h"
#include "tools/trace/system_event.h"

#define CPU_SAMPLE 1u			/* id in Universal.Events */

/* The maximum number of processes, and of functions of each, in text. JSON contains all. */
#define PROCESSES_SHOWN 10u
#define FUNCTIONS_SHOWN 3u

/* Hits are merged when this many new ones were added since the last merge. */
#define MERGE_HITS 65536u

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_hits(const void *left, const void *right)
{
	const struct rp_hot_hit *a = left, *b = right;
	int order = compare_numbers(a->process, b->process);

	if (order == 0)
		order = compare_numbers(a->life, b->life);
	return order ? order : compare_numbers(a->address, b->address);
}

static void merge_hits(struct rp_hot_functions *hot)
{
	size_t kept = 0;

	if (hot->hit_count)
		qsort(hot->hits, hot->hit_count, sizeof(*hot->hits), compare_hits);
	for (size_t i = 0; i < hot->hit_count; i++) {
		struct rp_hot_hit *last = &hot->hits[kept - (kept > 0)];
		const struct rp_hot_hit *hit = &hot->hits[i];

		if (!kept || compare_hits(last, hit) != 0) {
			hot->hits[kept++] = *hit;
			continue;
		}
		last->samples += hit->samples;
		if (hit->time_ns > last->time_ns)
			last->time_ns = hit->time_ns;
	}
	hot->hit_count = hot->merged = kept;
}

/* Return: the latest process with the id; NULL: none. */
static struct rp_hot_process *find_latest(struct rp_hot_functions *hot, uint64_t process)
{
	for (size_t i = hot->process_count; i > 0; i--) {
		if (hot->processes[i - 1].process == process)
			return &hot->processes[i - 1];
	}
	return NULL;
}

static const struct rp_hot_process *find_life(const struct rp_hot_functions *hot,
					      const struct rp_hot_hit *hit)
{
	size_t i = hot->process_count - 1;

	while (hot->processes[i].process != hit->process || hot->processes[i].life != hit->life)
		i--;
	return &hot->processes[i];
}

/* Return: NULL: no memory. */
static struct rp_hot_process *add_process(struct rp_hot_functions *hot, uint64_t process,
					  uint32_t life)
{
	struct rp_hot_process *grown;

	grown = rp_array_reserve(hot->processes, hot->process_count, &hot->process_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return NULL;
	hot->processes = grown;
	grown[hot->process_count] = (struct rp_hot_process){ .process = process, .life = life };
	return &grown[hot->process_count++];
}

/* Return: the stack's innermost function of the program, or else of the kernel. */
static uint64_t choose_address(const struct rp_hot_functions *hot,
			       const struct rp_reader_event *event)
{
	uint64_t address, first = 0;

	for (uint32_t i = 0; i < event->frame_count; i++) {
		address = rp_stack_frame(event, hot->pointer_bytes, i);
		if (address < RP_KERNEL_START)
			return address;
		if (i == 0)
			first = address;
	}
	return first;
}

static int take_sample(struct rp_hot_functions *hot, const struct rp_reader_event *event)
{
	struct rp_hot_process *process = find_latest(hot, event->process);
	struct rp_hot_hit *grown;

	if (!process)
		process = add_process(hot, event->process, 0);
	if (hot->hit_count - hot->merged >= MERGE_HITS)
		merge_hits(hot);
	grown = rp_array_reserve(hot->hits, hot->hit_count, &hot->hit_capacity, 1,
				 sizeof(*grown));
	if (!process || !grown)
		return -ENOMEM;
	hot->hits = grown;
	grown[hot->hit_count++] = (struct rp_hot_hit){
		.process = event->process, .address = choose_address(hot, event), .samples = 1,
		.time_ns = event->time_ns, .life = process->life,
	};
	process->samples++;
	hot->samples++;
	return 0;
}

/* A process id may have another process later. Samples between the two are those of the first. */
static int follow_process(struct rp_hot_functions *hot, const struct rp_reader_event *event)
{
	struct rp_hot_process *process = find_latest(hot, event->process);

	if (event->type->id == RP_SYSTEM_PROCESS_EXIT) {
		if (!process)
			process = add_process(hot, event->process, 0);
		if (process)
			process->has_ended = true;
		return process ? 0 : -ENOMEM;
	}
	if (event->type->id > RP_SYSTEM_PROCESS_EXIT || !process || !process->has_ended)
		return 0;
	return add_process(hot, event->process, process->life + 1) ? 0 : -ENOMEM;
}

bool rp_hot_functions_is_sample(const struct rp_reader_type *type)
{
	return type->id == CPU_SAMPLE && strcmp(type->provider, "Universal.Events") == 0;
}

int rp_hot_functions_take(struct rp_hot_functions *hot, const struct rp_reader_event *event)
{
	if (rp_hot_functions_is_sample(event->type))
		return event->frame_count ? take_sample(hot, event) : 0;
	if (!event->type->field_count && rp_system_is_event(event) &&
	    follow_process(hot, event) < 0)
		return -ENOMEM;
	return rp_symbols_take(&hot->symbols, event);
}

static int compare_processes(const struct rp_hot_process *a, const struct rp_hot_process *b)
{
	const int order = compare_numbers(a->process, b->process);

	return order ? order : compare_numbers(a->life, b->life);
}

static int compare_rows(const void *left, const void *right)
{
	const struct rp_hot_function *a = left, *b = right;
	int order = compare_numbers(b->process->samples, a->process->samples);

	if (order == 0)
		order = compare_processes(a->process, b->process);
	return order ? order : compare_numbers(b->samples, a->samples);
}

static int compare_names(const void *left, const void *right)
{
	const struct rp_hot_function *a = left, *b = right;
	int order = compare_processes(a->process, b->process);

	if (order || a->name == b->name)
		return order;
	return !a->name ? 1 : !b->name ? -1 : strcmp(a->name, b->name);
}

/* A function with several addresses becomes one row. Return: the number of rows. */
static size_t merge_rows(struct rp_hot_function *rows, size_t count)
{
	size_t kept = 0;

	qsort(rows, count, sizeof(*rows), compare_names);
	for (size_t i = 0; i < count; i++) {
		if (kept && compare_names(&rows[kept - 1], &rows[i]) == 0)
			rows[kept - 1].samples += rows[i].samples;
		else
			rows[kept++] = rows[i];
	}
	return kept;
}

/*
 * Make the rows, one for each function of each process. The process with most samples comes first,
 * and within a process the function with most samples. The caller passes the result to free().
 * Return: the rows; NULL: there are no samples, or no memory.
 */
static struct rp_hot_function *make_rows(struct rp_hot_functions *hot, size_t *ret_count)
{
	struct rp_hot_function *rows;

	*ret_count = 0;
	merge_hits(hot);
	rows = hot->hit_count ? calloc(hot->hit_count, sizeof(*rows)) : NULL;
	if (!rows || rp_symbols_sort(&hot->symbols) < 0) {
		free(rows);
		return NULL;
	}
	for (size_t i = 0; i < hot->process_count; i++)
		hot->processes[i].name = rp_symbols_life_name(&hot->symbols,
							      hot->processes[i].process,
							      hot->processes[i].life, INT64_MAX);
	for (size_t i = 0; i < hot->hit_count; i++) {
		const struct rp_hot_hit *hit = &hot->hits[i];
		struct rp_symbol symbol;

		rp_symbols_resolve(&hot->symbols, hit->process, hit->time_ns, hit->address,
				   &symbol);
		rows[i] = (struct rp_hot_function){
			.process = find_life(hot, hit), .name = symbol.function,
			.samples = hit->samples,
		};
	}
	*ret_count = merge_rows(rows, hot->hit_count);
	qsort(rows, *ret_count, sizeof(*rows), compare_rows);
	return rows;
}

static void add_row(struct rp_rows *rows, const struct rp_hot_functions *hot,
		    const struct rp_hot_function *row)
{
	const struct rp_hot_process *process = row->process;
	char count[RP_TEXT_MAX], share[16], name[64];

	snprintf(share, sizeof(share), "%.1f %%", 100. * (double)row->samples /
						  (double)hot->samples);
	snprintf(name, sizeof(name), "%s (%llu)", process->name ? process->name : "?",
		 (unsigned long long)process->process);
	rp_rows_add(rows, NULL, rp_text_count(row->samples, count));
	rp_rows_add(rows, NULL, share);
	rp_rows_add_string(rows, name);
	rp_rows_add_string(rows, row->name);
}

int rp_hot_functions_print(struct rp_hot_functions *hot)
{
	static const struct rp_column columns[] = {
		{ .title = "SAMPLES", .is_right = true }, { .title = "SHARE", .is_right = true },
		{ .title = "PROCESS" }, { .title = "HOTTEST FUNCTIONS" },
	};
	unsigned int processes = 0, functions = 0;
	struct rp_rows rows;
	size_t count;
	struct rp_hot_function *found = make_rows(hot, &count);
	int status;

	if (!found)
		return RP_EXIT_OK;
	rp_rows_init(&rows, RP_FORMAT_TEXT, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < count; i++) {
		bool is_next = i == 0 || found[i].process != found[i - 1].process;

		processes += is_next;
		functions = is_next ? 1 : functions + 1;
		if (processes <= PROCESSES_SHOWN && functions <= FUNCTIONS_SHOWN)
			add_row(&rows, hot, &found[i]);
	}
	putchar('\n');
	status = rp_rows_print(&rows);
	rp_rows_fini(&rows);
	free(found);
	return status;
}

struct json_object *rp_hot_functions_to_json(struct rp_hot_functions *hot)
{
	size_t count;
	struct rp_hot_function *found = make_rows(hot, &count);
	struct json_object *array = found ? json_object_new_array() : NULL;

	for (size_t i = 0; i < count; i++) {
		const struct rp_hot_process *process = found[i].process;
		struct json_object *row = json_object_new_object();

		json_object_object_add(row, "process_id", json_object_new_uint64(process->process));
		json_object_object_add(row, "process", rp_json_string(process->name));
		json_object_object_add(row, "function", rp_json_string(found[i].name));
		json_object_object_add(row, "samples", json_object_new_uint64(found[i].samples));
		json_object_array_add(array, row);
	}
	free(found);
	return array;
}

void rp_hot_functions_fini(struct rp_hot_functions *hot)
{
	rp_symbols_fini(&hot->symbols);
	free(hot->processes);
	free(hot->hits);
	memset(hot, 0, sizeof(*hot));
}
