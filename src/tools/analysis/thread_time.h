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

#include "tools/analysis/processor_runs.h"
#include "tools/analysis/recorded_kinds.h"
#include "tools/analysis/trace_spans.h"
#include "tools/trace/trace_symbols.h"
#include "tools/analysis/wait_cause.h"

/* Limits the memory for the records inside of intervals. */
#define RP_TIME_RECORDS_MAX 4000000u
#define RP_TIME_KINDS 9

/* A piece of an interval. */
struct rp_time_piece {
	enum rp_time_part part;
	int64_t from_ns, to_ns;
	const char *detail;		/* a system call, a function, a handler; or NULL */
	const char *function;		/* of the program, which waited; or NULL */
	const char *file;		/* for which the thread waited; or NULL */
	uint64_t thread;		/* 0: none worked */
	uint64_t lock;			/* address of a lock or futex; 0: none */
	uint64_t owner;			/* thread that held it when the wait began; 0: unknown */
	/*
	 * The thread that ended the wait. Of RUNNABLE, the thread that used meanwhile the processor
	 * that the waiting thread got, whose name is `detail`. 0: not known.
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
	bool has_returned;		/* of the last one of a thread: see open_threads */
	struct rp_time_record *records;
	size_t record_count, record_capacity;
	size_t next[RP_TIME_KINDS], next_end[RP_TIME_KINDS];	/* of each kind of record */
};

struct rp_thread_time {
	struct rp_thread_interval *intervals;	/* sorted by rp_thread_time_begin() */
	size_t count;
	const struct rp_symbols *symbols;
	uint32_t pointer_bytes;
	const struct rp_recorded_kinds *kinds;	/* of the trace */
	uint64_t left_out;		/* records beyond RP_TIME_RECORDS_MAX */
	/* For thread_time.c only. */
	struct rp_interval_id *ids;	/* sorted */
	size_t id_count;
	int64_t *latest_ns;		/* the latest end of this interval and of those before it */
	struct rp_text_pool texts;
	struct rp_processor_runs runs;
	size_t record_count;
	struct {
		uint64_t thread;
		int64_t time_ns;
		enum rp_time_part part;
		const char *detail, *function;
	} stack;			/* of the wait whose event comes next */
	size_t open_threads;		/* not yet seen in their programs after their intervals */
	int64_t first_end_ns, last_end_ns;	/* of the threads' last intervals */
};

/*
 * Begin to divide `count` intervals, which the function sorts, and which stay the caller's.
 * @pointer_bytes: of the trace.
 * @kinds: of the trace, complete when the time is divided.
 * Return: 0; -ENOMEM.
 */
int rp_thread_time_begin(struct rp_thread_time *time, struct rp_thread_interval *intervals,
			 size_t count, const struct rp_symbols *symbols, uint32_t pointer_bytes,
			 const struct rp_recorded_kinds *kinds);

/* Take an event of the trace. Return: 0; -ENOMEM. */
int rp_thread_time_take(struct rp_thread_time *time, const struct rp_reader_event *event);

/*
 * Return: whether all records of the intervals were taken, so that the rest of the reader's trace
 * need not be read. It is false for a reader without an index.
 * @now_ns: time of the reader's last event.
 */
bool rp_thread_time_is_complete(const struct rp_thread_time *time, const struct rp_reader *reader,
				int64_t now_ns);

/*
 * Take a span of another process as work for the intervals whose span has the same trace id, or has
 * or is its parent activity: their waits meanwhile for the network, or for something unknown, are
 * RP_TIME_CALLEE. A span that started before the span of an interval does not count for it, because
 * that span did not cause it. Return: 0; -ENOMEM.
 */
int rp_thread_time_take_callee(struct rp_thread_time *time, const struct rp_trace_span *span);

/* Call it after the last event; the results are valid until rp_thread_time_fini(). 0; -ENOMEM. */
int rp_thread_time_divide(struct rp_thread_time *time);

void rp_thread_time_fini(struct rp_thread_time *time);

#endif
