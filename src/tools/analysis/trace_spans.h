/* SPDX-License-Identifier: MIT */
/*
 * Pairs the start and stop events of spans.
 *
 * An event starts or stops a span by its opcode (1 and 2) or by the end of its name: Start and
 * Stop, or Begin and End, also after an underscore or a slash, and before a version such as _V1.
 * Both have the same provider, the same name without that end, the same process and the same
 * activity id. If they have no activity id, they are of the same thread. If several spans match a
 * stop event, the youngest of them stops.
 *
 * A span has an error if its stop event, or another event with its activity id while it was open,
 * has the level error or critical, or if its stop event has a field `error` that is neither 0 nor
 * empty, or a field `status` or `http_response_status_code` from 500 on.
 */
#ifndef RP_TOOL_TRACE_SPANS_H
#define RP_TOOL_TRACE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#include "tools/trace/event_expression.h"
#include "tools/trace/time_range.h"

/* The names of spans are unique: two spans of the same name have the same pointer. */
struct rp_span_name {
	char *provider;
	char *name;
	size_t index;			/* in rp_trace_spans.names */
};

/* Return: whether the name is `wanted`, NAME or PROVIDER/NAME; NULL: any. */
bool rp_span_has_name(const struct rp_span_name *name, const char *wanted);

struct rp_trace_span {
	const struct rp_span_name *name;
	uint64_t process;
	uint64_t thread, stop_thread;	/* `thread` started it */
	int64_t start_ns, stop_ns;	/* since the start of the recording; stop_ns >= start_ns */
	struct rp_guid activity;	/* zero: none */
	struct rp_guid parent;		/* the related activity of the start event; zero: none */
	uint8_t trace_id[16];		/* zero: none */
	uint64_t span_id;
	bool has_error;
	void *user;			/* for the caller; NULL at first */
};

/* Called for each span that stopped. Return: 0, or -errno to stop reading. */
typedef int (*rp_span_visit)(const struct rp_trace_span *span, void *data);

/* Initialise it with zeros, except for the functions and `data`. */
struct rp_trace_spans {
	rp_span_visit visit;
	/* Called when a span starts, and may set span->user; or NULL. Return: as visit. */
	int (*started)(struct rp_trace_span *span, void *data);
	/* Called for a span that goes without a visit: dropped, or open at the end; or NULL. */
	void (*forgotten)(const struct rp_trace_span *span, void *data);
	void *data;
	/* The times at which a span to visit starts; NULL: all. Its stop event may come later. */
	const struct rp_time_range *range;
	/* The caller's: fulfilled by the start events of the spans to visit; NULL: all. */
	struct rp_expression *where;
	struct rp_span_name **names;
	size_t name_count, name_capacity;
	size_t open_count;		/* spans without a stop event so far */
	size_t open_wanted;		/* those of them to visit */
	uint64_t dropped;		/* the oldest of them, beyond RP_SPANS_OPEN_MAX */
	uint64_t stops_alone;		/* stop events whose span did not start in the trace */
	/* For trace_spans.c only. */
	void *name_tree, *kind_tree, *group_tree;
	struct rp_open_span *oldest, *newest;
};

/* The maximum number of open spans, because each uses memory until it stops. */
#define RP_SPANS_OPEN_MAX 1000000u

/*
 * Take the next event of the trace, and pass a span that it stops to `visit`.
 * Return: 0; -ENOMEM; what `visit` returned.
 */
int rp_trace_spans_take(struct rp_trace_spans *spans, const struct rp_reader_event *event);

/*
 * Return: whether all spans to visit were visited, so that the rest of the reader's trace needs
 * not be read. It is false for a reader without an index.
 */
bool rp_trace_spans_are_complete(const struct rp_trace_spans *spans,
				 const struct rp_reader *reader);

/*
 * Call `visit` for the spans to visit that have not stopped, in the order of their start
 * events. Their stop_ns is `end_ns`, or start_ns if that is later.
 */
int rp_trace_spans_visit_open(const struct rp_trace_spans *spans, int64_t end_ns,
			      rp_span_visit visit, void *data);

/* Forget the spans that have not stopped, because events before their stop are missing. */
void rp_trace_spans_forget_open(struct rp_trace_spans *spans);

void rp_trace_spans_fini(struct rp_trace_spans *spans);

#endif
