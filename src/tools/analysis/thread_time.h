/* SPDX-License-Identifier: MIT */
/*
 * Divides intervals of threads' lives by what the threads did, from the records of `ringpipe
 * record`.
 *
 * A record of a wait, page fault, system call or interrupt comes at its end and states its
 * duration. Between two waits a thread is on a processor: the kernel reports each switch, and an
 * event of the thread itself begins and ends the interval. A page fault without a duration comes at
 * its beginning, and a wait in it follows. Each part of an interval comes from records of its own
 * kind; time without a record is RP_TIME_UNEXPLAINED. The parts of an interval sum to its length.
 */
#ifndef RP_TOOL_THREAD_TIME_H
#define RP_TOOL_THREAD_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#include "tools/analysis/trace_spans.h"
#include "tools/trace/trace_symbols.h"
#include "tools/analysis/wait_cause.h"

/* The groups of records that `ringpipe record --kernel` selects. */
enum rp_time_group {
	RP_TIME_GROUP_SCHED, RP_TIME_GROUP_SYSCALLS, RP_TIME_GROUP_FUTEX, RP_TIME_GROUP_FAULTS,
	RP_TIME_GROUP_BLOCK, RP_TIME_GROUP_IRQ, RP_TIME_GROUP_COUNT,
};

/* Limits the memory for the records inside of intervals. */
#define RP_TIME_RECORDS_MAX 4000000u
#define RP_TIME_KINDS 8

/* A piece of an interval. */
struct rp_time_piece {
	enum rp_time_part part;
	int64_t from_ns, to_ns;
	const char *detail;		/* a system call, a function, a handler; or NULL */
	const char *function;		/* of the program, which waited; or NULL */
	const char *file;		/* for which the thread waited; or NULL */
	uint64_t thread;		/* 0: none worked */
	uint64_t lock;			/* address of a futex; 0: none */
	/*
	 * The thread that ended the wait. Of RUNNABLE, the thread that used the processor
	 * meanwhile, whose name is `detail`. 0: not known.
	 */
	uint64_t waker_process, waker_thread;
	/* The request to a disk that took most of the wait. */
	const char *device;		/* its name; NULL: there was no request */
	uint64_t sector, request_bytes, request_ns;
};

/* An id by which other processes name the work of an interval. */
struct rp_interval_id {
	uint8_t id[16];
	size_t interval;
};

/* Set the first members; rp_thread_time_divide() sets the others. */
struct rp_thread_interval {
	uint64_t process, thread;
	int64_t from_ns, to_ns;
	const struct rp_trace_span *span;	/* which the thread served; or NULL */
	size_t owner;			/* for the caller */
	uint64_t parts_ns[RP_TIME_PART_COUNT];
	struct rp_time_piece *pieces;	/* in the order of time */
	size_t piece_count, piece_capacity;
	const char **functions;		/* that samples found, one for each sample */
	size_t function_count, function_capacity;
	/* For thread_time.c only. */
	struct rp_time_record *records;
	size_t record_count, record_capacity;
	size_t next[RP_TIME_KINDS], next_end[RP_TIME_KINDS];	/* of each kind of record */
};

struct rp_thread_time {
	struct rp_thread_interval *intervals;	/* sorted by rp_thread_time_begin() */
	size_t count;
	const struct rp_symbols *symbols;
	uint32_t pointer_bytes;
	bool has_waits, has_calls;	/* the trace has such records */
	bool states_groups;		/* the trace states what was recorded */
	unsigned int missing_groups;	/* bits by enum rp_time_group; of any recorder */
	uint64_t threshold_ns;		/* shorter waits, calls and interrupts have no records */
	uint64_t lost;			/* records that the recorder lost, as the trace states */
	uint64_t left_out;		/* records beyond RP_TIME_RECORDS_MAX */
	/* For thread_time.c only. */
	struct rp_interval_id *ids;	/* sorted */
	size_t id_count;
	int64_t *latest_ns;		/* the latest end of this interval and of those before it */
	struct rp_text_pool texts;
	size_t record_count;
	struct {
		uint64_t thread;
		int64_t time_ns;
		enum rp_time_part part;
		const char *detail, *function;
	} stack;			/* of the wait whose event comes next */
	uint64_t *waiting_processes;	/* those with a record of a wait */
	size_t waiting_count, waiting_capacity;
};

/*
 * Begin to divide `count` intervals, which the function sorts, and which stay the caller's.
 * @pointer_bytes: of the trace.
 * Return: 0; -ENOMEM.
 */
int rp_thread_time_begin(struct rp_thread_time *time, struct rp_thread_interval *intervals,
			 size_t count, const struct rp_symbols *symbols,
			 uint32_t pointer_bytes);

/* Take an event of the trace. Return: 0; -ENOMEM. */
int rp_thread_time_take(struct rp_thread_time *time, const struct rp_reader_event *event);

/*
 * Take a span of another process as work for the intervals whose span has the same trace id, or has
 * or is its parent activity: what they wait for meanwhile on the network is RP_TIME_CALLEE. Return:
 * 0; -ENOMEM.
 */
int rp_thread_time_take_callee(struct rp_thread_time *time, const struct rp_trace_span *span);

/* Call it after the last event; the results are valid until rp_thread_time_fini(). 0; -ENOMEM. */
int rp_thread_time_divide(struct rp_thread_time *time);

void rp_thread_time_fini(struct rp_thread_time *time);

#endif
