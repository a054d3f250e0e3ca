/* SPDX-License-Identifier: MIT */
#include "tools/analysis/gc_pauses.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cursor.h"

enum runtime_event {			/* ids of the runtime's manifest */
	GC_START = 1,
	GC_END = 2,
	RESTART_END = 3,
	HEAP_STATS = 4,
	SUSPEND_BEGIN = 9,
};

/* Why threads are suspended: for a collection, or to prepare one. */
#define SUSPEND_FOR_GC 1u
#define SUSPEND_FOR_GC_PREPARATION 6u

/* Other counts and the id of the runtime are between the sizes of the fourth and fifth heap. */
#define HEAP_STATS_REST_BYTES (2 * 8 + 3 * 4 + 2)

static const struct {
	const char *name;
	bool is_induced;
} reasons[RP_GC_REASONS] = {
	{ "AllocSmall", false }, { "Induced", true }, { "LowMemory", false }, { "Empty", false },
	{ "AllocLarge", false }, { "OutOfSpaceSmallObjectHeap", false },
	{ "OutOfSpaceLargeObjectHeap", false }, { "InducedNotForced", true },
	{ "Stress", false }, { "InducedLowMemory", true }, { "InducedCompacting", true },
	{ "LowMemoryHost", false }, { "PMFullGC", false }, { "LowMemoryHostBlocking", false },
};

/* A suspension that has not ended. */
struct open_pause {
	uint64_t process, thread;
	int64_t start_ns;
	struct rp_gc_collection collection;
};

const char *rp_gc_reason(unsigned int reason)
{
	return reason < RP_GC_REASONS ? reasons[reason].name : "other";
}

static bool is_in_range(const struct rp_gc_pauses *pauses, int64_t time_ns)
{
	return !pauses->range || rp_time_range_has(pauses->range, time_ns);
}

static bool is_wanted(const struct rp_gc_pauses *pauses, const struct rp_reader_event *event,
		      uint64_t process)
{
	return !pauses->where || rp_expression_matches(pauses->where, event, process);
}

static int compare_processes(const void *left, const void *right)
{
	const struct rp_gc_process *a = left, *b = right;

	return (a->process > b->process) - (a->process < b->process);
}

static int compare_open(const void *left, const void *right)
{
	const struct open_pause *a = left, *b = right;

	if (a->process != b->process)
		return (a->process > b->process) - (a->process < b->process);
	return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Return: the process; NULL: the bound, which is counted, or no memory, with `ret` set. */
static struct rp_gc_process *get_process(struct rp_gc_pauses *pauses, uint64_t process, int *ret)
{
	struct rp_gc_process key = { .process = process }, **found, **grown, *made;

	*ret = 0;
	found = tfind(&key, &pauses->process_tree, compare_processes);
	if (found)
		return *found;
	if (pauses->count == RP_GC_PROCESSES_MAX) {
		pauses->ignored++;
		return NULL;
	}
	*ret = -ENOMEM;
	grown = rp_array_reserve(pauses->processes, pauses->count, &pauses->capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return NULL;
	pauses->processes = grown;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NULL;
	made->process = process;
	if (!tsearch(made, &pauses->process_tree, compare_processes)) {
		free(made);
		return NULL;
	}
	*ret = 0;
	return pauses->processes[pauses->count++] = made;
}

static struct open_pause *find_open(struct rp_gc_pauses *pauses,
				    const struct rp_reader_event *event, uint64_t process)
{
	const struct open_pause key = { .process = process, .thread = event->thread };
	struct open_pause **found = tfind(&key, &pauses->open_tree, compare_open);

	return found ? *found : NULL;
}

static int take_suspension(struct rp_gc_pauses *pauses, const struct rp_reader_event *event,
			   uint64_t process)
{
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	struct open_pause *open;
	uint32_t reason;

	if (rp_cursor_u32(&payload, &reason) != 0 ||
	    (reason != SUSPEND_FOR_GC && reason != SUSPEND_FOR_GC_PREPARATION))
		return 0;
	open = find_open(pauses, event, process);
	if (!open && pauses->open_count == RP_GC_OPEN_MAX) {
		pauses->ignored++;
		return 0;
	}
	if (open) {
		pauses->open_in_range -= is_in_range(pauses, open->start_ns);
	} else {
		open = malloc(sizeof(*open));
		if (!open)
			return -ENOMEM;
		open->process = process;
		open->thread = event->thread;
		if (!tsearch(open, &pauses->open_tree, compare_open)) {
			free(open);
			return -ENOMEM;
		}
		pauses->open_count++;
	}
	pauses->open_in_range += is_in_range(pauses, event->time_ns);
	open->start_ns = event->time_ns;
	open->collection = (struct rp_gc_collection){ 0 };
	return 0;
}

static void count_collection(struct rp_gc_sum *sum, const struct rp_gc_collection *collection)
{
	const unsigned int reason = collection->reason;

	sum->count++;
	sum->background += collection->type == RP_GC_BACKGROUND;
	sum->induced += reason < RP_GC_REASONS && reasons[reason].is_induced;
	sum->reasons[reason < RP_GC_REASONS ? reason : RP_GC_REASONS]++;
}

static void take_start(struct rp_gc_pauses *pauses, const struct rp_reader_event *event,
		       struct rp_gc_process *process)
{
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	struct open_pause *open = find_open(pauses, event, process->process);
	uint32_t number, generation, reason, type;
	struct rp_gc_collection collection;

	if (rp_cursor_u32(&payload, &number) || rp_cursor_u32(&payload, &generation) ||
	    rp_cursor_u32(&payload, &reason) || rp_cursor_u32(&payload, &type) ||
	    generation >= RP_GC_GENERATIONS || type > RP_GC_FOREGROUND)
		return;
	collection = (struct rp_gc_collection){
		.number = number, .generation = (uint8_t)generation, .type = (uint8_t)type,
		.reason = reason < RP_GC_REASONS ? (uint8_t)reason : RP_GC_REASONS,
		.is_known = true, .is_wanted = is_wanted(pauses, event, process->process),
	};
	if (is_in_range(pauses, event->time_ns) && collection.is_wanted) {
		count_collection(&process->all, &collection);
		count_collection(&process->generations[generation], &collection);
	}
	if (open)
		open->collection = collection;
	if (type == RP_GC_BACKGROUND)
		process->backgrounds[process->background_count++ % RP_GC_WAITING_MAX] =
			(struct rp_gc_background){ collection, event->time_ns, INT64_MAX };
}

static void take_end(const struct rp_reader_event *event, struct rp_gc_process *process)
{
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	uint32_t number;

	if (rp_cursor_u32(&payload, &number))
		return;
	for (size_t i = 0; i < RP_GC_WAITING_MAX; i++) {
		struct rp_gc_background *background = &process->backgrounds[i];

		if (background->collection.is_known && background->collection.number == number)
			background->end_ns = event->time_ns;
	}
}

static void take_heaps(const struct rp_reader_event *event, struct rp_gc_process *process)
{
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	uint64_t sizes[RP_GC_HEAPS] = { 0 }, promoted, total = 0;
	const uint8_t *rest;

	for (unsigned int i = 0; i < RP_GC_HEAPS; i++) {
		/* The first runtimes had no heap of pinned objects. */
		if (i == RP_GC_HEAPS - 1 && rp_cursor_take(&payload, HEAP_STATS_REST_BYTES, &rest))
			return;
		if (rp_cursor_u64(&payload, &sizes[i]) || rp_cursor_u64(&payload, &promoted)) {
			if (i < RP_GC_HEAPS - 1)
				return;
			sizes[i] = 0;
		}
	}
	if (!process->heap_count || event->time_ns >= process->heap_ns) {
		memcpy(process->heap_last, sizes, sizeof(sizes));
		process->heap_ns = event->time_ns;
	}
	process->heap_count++;
	for (unsigned int i = 0; i < RP_GC_HEAPS; i++) {
		if (sizes[i] > process->heap_max[i])
			process->heap_max[i] = sizes[i];
		if (__builtin_add_overflow(total, sizes[i], &total))
			total = UINT64_MAX;
	}
	if (total > process->total_max)
		process->total_max = total;
}

static int add_pause(struct rp_gc_pauses *pauses, struct rp_gc_process *process,
		     const struct rp_gc_pause *pause)
{
	const uint64_t ns = (uint64_t)pause->stop_ns - (uint64_t)pause->start_ns;
	int ret;

	if (!is_in_range(pauses, pause->start_ns) ||
	    (pauses->where && !pause->collection.is_wanted))
		return 0;
	ret = rp_latency_add(&process->all.pauses, ns);
	if (ret == 0 && pause->collection.is_known)
		ret = rp_latency_add(&process->generations[pause->collection.generation].pauses,
				     ns);
	return ret ? ret : pauses->visit(pause, pauses->data);
}

/* Take the pause that has waited longest. */
static int settle_pause(struct rp_gc_pauses *pauses, struct rp_gc_process *process)
{
	struct rp_gc_pause *pause = &process->waiting[process->settled_count++ %
						      RP_GC_WAITING_MAX];
	const struct rp_gc_background *latest = NULL;

	for (size_t i = 0; i < RP_GC_WAITING_MAX; i++) {
		const struct rp_gc_background *background = &process->backgrounds[i];

		if (background->collection.is_known && background->start_ns <= pause->start_ns &&
		    background->end_ns >= pause->start_ns &&
		    (!latest || background->start_ns > latest->start_ns))
			latest = background;
	}
	if (latest)
		pause->collection = latest->collection;
	return add_pause(pauses, process, pause);
}

static int take_restart(struct rp_gc_pauses *pauses, const struct rp_reader_event *event,
			struct rp_gc_process *process)
{
	struct open_pause *open = find_open(pauses, event, process->process);
	struct rp_gc_pause pause;
	int ret = 0;

	if (!open)
		return 0;
	pause = (struct rp_gc_pause){
		.process = process->process, .thread = event->thread,
		.start_ns = open->start_ns, .stop_ns = event->time_ns > open->start_ns ?
						       event->time_ns : open->start_ns,
		.collection = open->collection,
	};
	pauses->open_in_range -= is_in_range(pauses, open->start_ns);
	tdelete(open, &pauses->open_tree, compare_open);
	free(open);
	pauses->open_count--;
	if (pause.collection.is_known)
		return add_pause(pauses, process, &pause);
	if (process->waiting_count - process->settled_count == RP_GC_WAITING_MAX)
		ret = settle_pause(pauses, process);
	process->waiting[process->waiting_count++ % RP_GC_WAITING_MAX] = pause;
	return ret;
}

bool rp_gc_pauses_are_complete(const struct rp_gc_pauses *pauses, const struct rp_reader *reader)
{
	return !pauses->open_in_range && rp_trace_index_is_past(reader);
}

int rp_gc_pauses_finish(struct rp_gc_pauses *pauses)
{
	int ret = 0;

	for (size_t i = 0; i < pauses->count; i++) {
		struct rp_gc_process *process = pauses->processes[i];

		while (ret == 0 && process->settled_count < process->waiting_count)
			ret = settle_pause(pauses, process);
	}
	return ret;
}

int rp_gc_pauses_take(struct rp_gc_pauses *pauses, const struct rp_reader_event *event,
		      uint64_t process)
{
	struct rp_gc_process *found;
	int ret;

	if (event->type->id > SUSPEND_BEGIN ||
	    strcmp(event->type->provider, "Microsoft-Windows-DotNETRuntime") != 0)
		return 0;
	if (event->type->id == SUSPEND_BEGIN)
		return take_suspension(pauses, event, process);
	if (event->type->id == RESTART_END && !find_open(pauses, event, process))
		return 0;
	if (event->type->id < GC_START || event->type->id > HEAP_STATS)
		return 0;
	found = get_process(pauses, process, &ret);
	if (!found)
		return ret;
	switch (event->type->id) {
	case GC_START:
		take_start(pauses, event, found);
		break;
	case GC_END:
		take_end(event, found);
		break;
	case HEAP_STATS:
		if (is_in_range(pauses, event->time_ns) && is_wanted(pauses, event, process))
			take_heaps(event, found);
		break;
	default:
		return take_restart(pauses, event, found);
	}
	return 0;
}

static void keep(void *node)
{
	(void)node;
}

void rp_gc_pauses_fini(struct rp_gc_pauses *pauses)
{
	tdestroy(pauses->open_tree, free);
	tdestroy(pauses->process_tree, keep);
	for (size_t i = 0; i < pauses->count; i++) {
		struct rp_gc_process *process = pauses->processes[i];

		rp_latency_fini(&process->all.pauses);
		for (unsigned int j = 0; j < RP_GC_GENERATIONS; j++)
			rp_latency_fini(&process->generations[j].pauses);
		free(process);
	}
	free(pauses->processes);
	*pauses = (struct rp_gc_pauses){ 0 };
}
