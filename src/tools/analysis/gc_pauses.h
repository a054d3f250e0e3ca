/* SPDX-License-Identifier: MIT */
/*
 * The garbage collections of .NET processes, by the events of Microsoft-Windows-DotNETRuntime.
 *
 * A pause lasts from the event that begins to suspend the threads for a collection to the event
 * that ends their restart, both of one thread. It belongs to the collection that the thread began
 * meanwhile, or else to the background collection of its process at that time.
 *
 * The runtime writes the events of its threads in blocks, so those of different threads are not in
 * the order of time. A pause whose collection another thread began therefore waits until
 * RP_GC_WAITING_MAX later ones have been read.
 *
 * The memory is bounded: processes beyond RP_GC_PROCESSES_MAX, and suspensions that are open at the
 * same time beyond RP_GC_OPEN_MAX, are ignored and counted.
 */
#ifndef RP_TOOL_GC_PAUSES_H
#define RP_TOOL_GC_PAUSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#include "tools/analysis/latency_histogram.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/time_range.h"

#define RP_GC_GENERATIONS 3u
#define RP_GC_HEAPS 5u			/* the generations, and those of large and pinned objects */
#define RP_GC_REASONS 14u
#define RP_GC_PROCESSES_MAX 4096u
#define RP_GC_OPEN_MAX 65536u
#define RP_GC_WAITING_MAX 256u

enum rp_gc_type {
	RP_GC_BLOCKING, RP_GC_BACKGROUND, RP_GC_FOREGROUND,	/* as the runtime numbers them */
};

struct rp_gc_collection {
	uint32_t number;
	uint8_t generation, reason, type;
	bool is_known;			/* false: the trace has no start of it */
	bool is_wanted;			/* its start fulfils the expression */
};

struct rp_gc_pause {
	uint64_t process, thread;
	int64_t start_ns, stop_ns;
	struct rp_gc_collection collection;
};

/* A background collection, and when it ran. */
struct rp_gc_background {
	struct rp_gc_collection collection;
	int64_t start_ns, end_ns;	/* INT64_MAX: no end was read so far */
};

/* Collections of one generation, or of all. */
struct rp_gc_sum {
	uint64_t count, background, induced;
	uint64_t reasons[RP_GC_REASONS + 1];	/* the last: reasons that later runtimes have */
	struct rp_latency_histogram pauses;
};

struct rp_gc_process {
	uint64_t process;
	struct rp_gc_sum all;		/* with the pauses of unknown collections */
	struct rp_gc_sum generations[RP_GC_GENERATIONS];
	uint64_t heap_count;		/* times that the sizes were reported */
	uint64_t heap_last[RP_GC_HEAPS], heap_max[RP_GC_HEAPS];	/* bytes after a collection */
	uint64_t total_max;		/* of all heaps together */
	int64_t heap_ns;		/* time of `heap_last` */
	/* The latest that were read; for gc_pauses.c only. */
	struct rp_gc_background backgrounds[RP_GC_WAITING_MAX];
	struct rp_gc_pause waiting[RP_GC_WAITING_MAX];
	size_t background_count, waiting_count, settled_count;	/* indexes modulo the sizes */
};

/* Initialise it with zeros, except for the first members. */
struct rp_gc_pauses {
	/* Called for each pause. Return: 0, or -errno to stop reading. */
	int (*visit)(const struct rp_gc_pause *pause, void *data);
	void *data;
	/*
	 * The caller's: fulfilled by the starts of the collections to count, with their pauses, and
	 * by the events with sizes; NULL: all.
	 */
	struct rp_expression *where;
	/* The times of the pauses and collections, by their starts, and of sizes; NULL: all. */
	const struct rp_time_range *range;
	struct rp_gc_process **processes;	/* in the order of their first events */
	size_t count, capacity;
	uint64_t ignored;
	void *process_tree, *open_tree;	/* for gc_pauses.c only */
	size_t open_count;
	size_t open_in_range;		/* suspensions of `open_count` that began in the range */
};

/* Take an event of a process; other events are ignored. Return: 0; -ENOMEM; what `visit` did. */
int rp_gc_pauses_take(struct rp_gc_pauses *pauses, const struct rp_reader_event *event,
		      uint64_t process);

/*
 * Return: whether no later event of a reader adds to the pauses of the range: all pauses that began
 * in it have ended, and the reader has passed it.
 */
bool rp_gc_pauses_are_complete(const struct rp_gc_pauses *pauses, const struct rp_reader *reader);

/* Take the pauses that still wait, after the last event. Return: like rp_gc_pauses_take(). */
int rp_gc_pauses_finish(struct rp_gc_pauses *pauses);

/* Return: the name of a reason, as the runtime's manifest has it; "other" beyond these. */
const char *rp_gc_reason(unsigned int reason);

void rp_gc_pauses_fini(struct rp_gc_pauses *pauses);

#endif
