/* SPDX-License-Identifier: MIT */
/*
 * A trace in memory, as the view shows it. The file is read twice when the view opens it: for the
 * names of functions, and for all else. Only the events themselves, and explanations, are read from
 * the file again. The index of the file restricts the first reading, and those of events and of
 * explanations, to the blocks that matter.
 *
 * The view reads an excerpt of a large trace: parts at equal distances. The amount that it then
 * reads of a range (view_ranges.h) does not depend on the size of the file either. The whole trace
 * is read if the user requests that.
 *
 * The memory is bounded, to about 1.5 GB without names. The array `warnings` states each change
 * that a bound made, and the numbers of the whole trace stay exact.
 */
#ifndef RP_TOOL_VIEW_MODEL_H
#define RP_TOOL_VIEW_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#include "tools/analysis/profile.h"
#include "tools/analysis/recorded_kinds.h"
#include "tools/analysis/slowest_spans.h"
#include "tools/analysis/span_table.h"
#include "tools/analysis/trace_spans.h"
#include "tools/trace/trace_index.h"
#include "tools/view/view_series.h"

/*
 * Reading a trace with more events takes more than a second, so the view reads an excerpt of it:
 * parts of at least this many events. A range with more events is read as an excerpt, too.
 */
#define RP_VIEW_WHOLE_EVENTS 1000000u
#define RP_VIEW_PARTS 64u
#define RP_VIEW_PART_EVENTS 4096u
#define RP_VIEW_RANGE_EVENTS (1u << 19)

#define RP_VIEW_THREADS_MAX (1u << 18)
#define RP_VIEW_CPUS_MAX 4096u
#define RP_VIEW_KINDS_MAX 65536u
#define RP_VIEW_SAMPLES_MAX (8u << 20)
#define RP_VIEW_WAITS_MAX (4u << 20)
#define RP_VIEW_SPANS_MAX (2u << 20)
#define RP_VIEW_COUNTERS_MAX 4096u
#define RP_VIEW_TIME_MAX (1ll << 60)	/* of the range that is shown: sums do not overflow */
#define RP_VIEW_POINTS_MAX 16384u	/* of a counter */

struct rp_view_thread {
	uint64_t process, thread;
	char *name;			/* or NULL */
	uint64_t events, samples, spans;
	struct rp_view_series event_series, sample_series, span_series;	/* spans by their start */
	size_t first_span, span_count;	/* in rp_view_trace.by_thread */
	size_t first_wait, wait_count;	/* in rp_view_trace.waits */
};

struct rp_view_cpu {
	struct rp_view_series events, samples;
};

struct rp_view_sample {
	int64_t time_ns;
	uint32_t thread;		/* index in rp_view_trace.threads */
	uint32_t node;			/* RP_CALL_NONE: no stack */
};

/* A time off the processor; its event comes at its end. */
struct rp_view_wait {
	int64_t end_ns;
	uint64_t duration_ns, runnable_ns;
	uint64_t waker_thread;		/* 0: unknown */
	uint32_t thread, node;
	bool is_preempted;
};

struct rp_view_span {
	int64_t start_ns;
	uint64_t duration_ns;
	uint64_t process, tid, stop_tid, span_id;
	struct rp_guid activity, parent;
	uint8_t trace_id[16];
	uint32_t name;			/* index in rp_view_trace.spans.names */
	uint32_t thread;
	uint16_t depth;
	bool has_error;
};

/* The events of one provider and name. */
struct rp_view_kind {
	char *provider, *name;
	uint64_t count;
};

struct rp_view_point {
	int64_t time_ns;
	double value;
};

struct rp_view_counter {
	uint64_t process;
	char *provider, *name, *display, *unit;
	struct rp_view_point *points;
	size_t count, capacity;
	uint64_t seen;			/* every `step`-th value is kept */
	uint64_t step;
};

/* A part of an excerpt: it stands for all events from its first one to that of the next part. */
struct rp_view_part {
	int64_t first_ns;
	uint64_t read;			/* events of the part */
	uint64_t events;		/* those that it stands for, by the index */
};

struct rp_view_ranges;

struct rp_view_trace {
	char *path;
	struct rp_trace_index *index;	/* NULL: the file is damaged, or has no random access */
	bool is_excerpt;		/* parts of the trace, or of the range, were read */
	bool is_loading;		/* an excerpt: the whole trace is being read */
	bool is_range;			/* of a trace; see rp_view_trace_open_range() */
	int64_t from_ns, to_ns;		/* of a range: the times that are read */
	struct rp_view_part parts[RP_VIEW_PARTS + 1];	/* of an excerpt, by time */
	size_t part_count;
	struct rp_view_stretch *stretches;	/* of an excerpt: of `series` and `cpu_series` */
	uint64_t read_events;		/* of an excerpt: in all parts */
	uint64_t range_events;		/* of an excerpt: those in its range, by the index */
	struct rp_view_ranges *ranges;	/* of an excerpt of a trace; or NULL */
	uint32_t *permille;		/* of the file that the last reading has read; or NULL */
	struct rp_reader_info info;
	char *process_name;		/* of info.process_id, by its command line; or NULL */
	struct rp_reader_stats stats;
	int64_t end_ns;			/* just after the last event, relative to the start */
	int64_t first_ns, last_ns;	/* of the events */
	struct rp_view_thread **threads;	/* by their first event */
	size_t thread_count, thread_capacity;
	struct rp_call_index by_thread_id;
	struct rp_view_cpu **cpus;	/* NULL: without events */
	size_t cpu_count;
	struct rp_view_series_set series, cpu_series;
	struct rp_profile cpu, offcpu;
	struct rp_view_sample *samples;	/* by time */
	size_t sample_count, sample_capacity;
	uint64_t sample_step;		/* each sample stands for that many */
	struct rp_view_wait *waits;	/* by thread and end */
	size_t wait_count, wait_capacity;
	uint64_t wait_min_ns;		/* shorter waits are not kept */
	struct rp_recorded_kinds recorded;	/* not of a range */
	struct rp_trace_spans spans;	/* the names */
	struct rp_span_table table;	/* of all spans */
	struct rp_view_span *all_spans;	/* by start */
	size_t span_count, span_capacity;
	uint64_t span_min_ns;		/* shorter spans are not kept */
	uint32_t *by_thread;		/* indexes of all_spans by thread and start */
	struct rp_view_kind *kinds;	/* sorted by provider and name */
	size_t kind_count, kind_capacity;
	struct rp_view_counter *counters;
	size_t counter_count, counter_capacity;
	char **warnings;
	size_t warning_count, warning_capacity;
};

/*
 * Read a trace. The reader skips damage, which becomes a warning.
 * @signal_fd: reading ends when it is readable.
 * @may_excerpt: read only an excerpt of a large trace that has an index.
 * Return: 0; -ECANCELED; -ENOMEM; as rp_input_open(), which prints why it failed.
 */
int rp_view_trace_open(struct rp_view_trace *trace, const char *path, int signal_fd,
		       bool may_excerpt);

/*
 * Read the whole trace of an excerpt.
 * @trace: shares the index of the excerpt; one of the two must lose it before both are closed.
 * @permille: changes during the reading, by atomic stores.
 * Return: as above.
 */
int rp_view_trace_open_whole(struct rp_view_trace *trace, const struct rp_view_trace *excerpt,
			     int signal_fd, uint32_t *permille);

/*
 * Read the events of a range of an excerpt's trace, or an excerpt of them if they are more than
 * RP_VIEW_RANGE_EVENTS.
 * @trace: uses the names of the excerpt, which must outlive it, and shares its index, as above.
 * Return: as above.
 */
int rp_view_trace_open_range(struct rp_view_trace *trace, const struct rp_view_trace *excerpt,
			     int64_t from_ns, int64_t to_ns, int signal_fd);
void rp_view_trace_close(struct rp_view_trace *trace);

/* Add a warning, a sentence. Return: 0; -ENOMEM. */
int rp_view_trace_warn(struct rp_view_trace *trace, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Return: the name of the process, or NULL. */
const char *rp_view_trace_process(const struct rp_view_trace *trace, uint64_t process);

#endif
