/* SPDX-License-Identifier: MIT */
/*
 * An index of a trace: where its blocks are, and which times, kinds of events, processes and
 * threads each block has. With it, a command reads only the blocks that it needs.
 *
 *	rp_input_open(&input, path, -1, &reader);
 *	rp_trace_index_open(path, &index);
 *	rp_trace_index_select(index, &(struct rp_trace_query){ .from_ns = a, .to_ns = b }, reader);
 *	while (rp_reader_next(reader, &event) == 1) ...
 *
 * The index of shop.nettrace is shop.nettrace.rpidx. trace_index_file.c has its format.
 */
#ifndef RP_TOOL_TRACE_INDEX_H
#define RP_TOOL_TRACE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#include "nettrace/format.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/input.h"

#define RP_TRACE_INDEX_SUFFIX ".rpidx"

enum rp_index_flag {
	/* The block has an event that describes others, see rp_event_describes(). */
	RP_INDEX_DESCRIBES = 1,
	/* Sequence points. */
	RP_INDEX_FLUSHES_THREADS = 2,
	RP_INDEX_FLUSHES_METADATA = 4,
};

/* A block of the trace. A set of 64 bits has the bit `number % 64` for each member. */
struct rp_index_block {
	uint64_t begin, end;		/* offsets in the decompressed trace */
	int64_t first_ns, last_ns;	/* earliest and latest event */
	uint64_t types;			/* set of indexes into the index's `types` */
	uint64_t processes;		/* set of rp_index_bit() */
	uint64_t threads;		/* likewise */
	uint32_t events;
	uint16_t kind;			/* enum rp_block_kind */
	uint16_t flags;			/* enum rp_index_flag */
};

/* A kind of event. */
struct rp_index_type {
	const char *provider;
	const char *name;		/* "": the trace has no name for it */
	uint32_t id;
	uint32_t version;
	uint64_t events;
};

struct rp_trace_index {
	struct rp_index_block *blocks;	/* in the order of the trace */
	size_t block_count, block_capacity;
	struct rp_index_type *types;	/* of the events, in the order of their first events */
	size_t type_count, type_capacity;
	char *texts;			/* memory of the names of an index from a file; or NULL */
	uint64_t events;
	int64_t first_ns, last_ns;	/* earliest and latest event */
	uint64_t end;			/* offset of the end of the last block */
	bool is_whole;			/* false: the trace is damaged, or cut, at `end` */
	bool has_processes;		/* the events state their processes (version 6) */
};

/* Which events to read. */
struct rp_trace_query {
	int64_t from_ns, to_ns;		/* since the start of the recording; `to_ns` is excluded */
	/* Also return the events that describe others (processes, functions), at any time. */
	bool has_descriptions;
	/* Also return the events after `to_ns`; rp_trace_index_is_past() shows where they begin. */
	bool has_tail;
	/*
	 * Also return the events before `from_ns` of the blocks that may have an event there that
	 * fulfils the expression; or NULL.
	 */
	struct rp_expression *lead;
	/*
	 * Read the blocks from the last but one sequence point before the range to the second one
	 * after it, and return their events of all times.
	 */
	bool has_points;
	/*
	 * Blocks may be left out if they have no event that fulfils these conditions. The reader
	 * still returns other events.
	 */
	struct rp_expression *where;	/* or NULL */
	bool has_process, has_thread;
	uint64_t process, thread;
	/*
	 * If `part_count` is not 0, read only that many parts of the events that the query selects,
	 * at equal distances, each of about `part_events` events.
	 */
	uint32_t part_count, part_events;
};

/* The bit of a process id or thread id in a set. */
static inline uint64_t rp_index_bit(uint64_t id)
{
	return 1ull << (id * 0x9e3779b97f4a7c15ull >> 58);
}

/*
 * Get the index of a trace: load the file next to it, or build the index and store it there. A file
 * that does not belong to the trace as it is now is replaced. If the file cannot be written, the
 * index exists only in memory.
 * @path: a regular file.
 * @signal_fd: building ends when it is readable; or -1.
 * @ret_index: for rp_trace_index_close().
 *
 * Return: 0, also for a damaged trace; -ESPIPE: the trace is no regular file, or compressed in a
 * form without random access; -ECANCELED; -ENOMEM; -errno of open(2) or read(2); -EBADMSG: it is no
 * trace.
 */
int rp_trace_index_open(const char *path, int signal_fd, struct rp_trace_index **ret_index);

/* NULL is allowed. */
void rp_trace_index_close(struct rp_trace_index *index);

void rp_trace_index_fini(struct rp_trace_index *index);

/*
 * Make a reader, which has returned no event yet, return only the events of a query's times. It
 * skips the blocks that have none of them, and keeps the definitions, stacks, threads and labels
 * that the events need. Losses between two blocks that are not successive do not count.
 * @index: the index of the reader's trace; NULL: read all blocks.
 *
 * Return: 0; -ENOMEM.
 */
int rp_trace_index_select(const struct rp_trace_index *index, const struct rp_trace_query *query,
			  struct rp_reader *reader);

/*
 * Return: whether the reader's last event comes after all blocks that have events of the query's
 * times, and after those that `has_points` adds. It is false for a reader without an index.
 */
bool rp_trace_index_is_past(const struct rp_reader *reader);

/* Return: the number of places before the reader's last event at which it has skipped blocks. */
uint32_t rp_trace_index_gaps(const struct rp_reader *reader);

/*
 * Make a reader, which has returned no event yet, return only the events of a query, as
 * rp_trace_index_select() does, by the index that is stored for its file. An index is not built for
 * this: without one, the reader reads all blocks.
 * @fd: the file of the reader.
 *
 * Return: 0; -ENOMEM.
 */
int rp_trace_index_select_stored(const char *path, int fd, const struct rp_trace_query *query,
				 struct rp_reader *reader);

/* Decides which blocks can have an event that fulfils a query's conditions, besides its times. */
struct rp_index_filter {
	const struct rp_trace_query *query;
	bool knows_processes;
	uint64_t types;			/* bits of the types that the expression accepts */
	struct rp_type_comparison *comparisons;	/* of the expression; NULL: no expression */
};

/* Return: 0; -ENOMEM. */
int rp_index_filter_init(struct rp_index_filter *filter, const struct rp_trace_index *index,
			 const struct rp_trace_query *query);
void rp_index_filter_fini(struct rp_index_filter *filter);

/* Return: false: no event of the block fulfils the conditions. */
bool rp_index_filter_accepts(const struct rp_index_filter *filter,
			     const struct rp_index_block *block);

/*
 * Load an index for a file. Return: 0; -ESTALE: there is none for this file; -ENOMEM. After an
 * error, a part of the index may be loaded.
 */
int rp_trace_index_load(const char *path, int fd, struct rp_trace_index *ret_index);

/* Store an index next to the file. Return: 0; -errno. */
int rp_trace_index_store(const char *path, int fd, const struct rp_trace_index *index);

#endif
