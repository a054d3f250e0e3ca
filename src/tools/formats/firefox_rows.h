/* SPDX-License-Identifier: MIT */
/*
 * The rows of a profile for the Firefox profiler. Its tables have a column for each property of a
 * thread's markers, so the writer keeps all rows until the trace has ended.
 *
 * The memory is bounded: markers and values of counters beyond the bounds are counted only.
 */
#ifndef RP_TOOL_FIREFOX_ROWS_H
#define RP_TOOL_FIREFOX_ROWS_H

#include "tools/formats/shown_event.h"
#include "tools/formats/span_tracks.h"
#include "tools/formats/stack_samples.h"
#include "tools/formats/string_table.h"

#define RP_FIREFOX_ROWS_MAX (4u << 20)		/* markers, and values of counters */
#define RP_FIREFOX_BYTES_MAX (256u << 20)	/* of the data of markers and the strings */

/* The categories of frames and markers. */
enum rp_firefox_category {
	RP_FIREFOX_OTHER, RP_FIREFOX_KERNEL, RP_FIREFOX_EVENTS, RP_FIREFOX_SPANS,
};

/* The type of markers: those of an event, or of the spans that an event starts. */
struct rp_firefox_schema {
	struct rp_shown_type shown;
	const struct rp_reader_type *type;	/* NULL: the type of spans without their fields */
	const struct rp_reader_type *stop;	/* of the first span that stopped; or NULL */
	char *name;
	size_t number;
	bool has_async;				/* one of its spans does not nest */
};

struct rp_firefox_marker {
	const char *data;			/* JSON */
	int64_t start_ns, stop_ns;
	uint32_t data_bytes;
	uint32_t thread;			/* an index of `threads` */
	uint32_t name;				/* a string */
	uint32_t sequence;
	bool is_interval;
	uint8_t category;
};

struct rp_firefox_value {
	int64_t time_ns;
	double value;
	uint32_t counter;
	uint32_t sequence;
};

struct rp_firefox_counter {
	char *provider, *name, *unit;
	uint64_t process;
	uint32_t thread;			/* of the first value; an index of `threads` */
	bool is_rate;
};

struct rp_firefox {
	struct rp_format_out *out;
	struct rp_stack_samples *samples;
	struct rp_span_tracks tracks;
	uint32_t *sample_threads;		/* for each row of `samples` */
	size_t sample_capacity;
	struct rp_thread_track **threads;
	size_t thread_count, thread_capacity;
	struct rp_string_table strings;
	struct rp_firefox_schema **schemas;
	size_t schema_count, schema_capacity;
	struct rp_firefox_marker *markers;
	size_t marker_count, marker_capacity;
	struct rp_string_table counter_names;	/* a number is an index of `counters` */
	struct rp_firefox_counter *counters;
	size_t counter_count, counter_capacity;
	struct rp_firefox_value *values;
	size_t value_count, value_capacity;
	char **blocks;				/* of the data of markers */
	size_t block_count, block_capacity, block_used, block_bytes;
	size_t data_bytes;
	uint64_t omitted;			/* markers and values beyond the bounds */
	struct rp_format_out data, text;	/* being made */
	bool is_sample;				/* the event that is being taken */
};

/* Write the whole profile. Return: 0; -ENOMEM. */
int rp_firefox_write(struct rp_firefox *firefox);

#endif
