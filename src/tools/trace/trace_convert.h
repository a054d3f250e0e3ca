/* SPDX-License-Identifier: MIT */
/*
 * Converts a trace to another version. Version 4 has no place for the data that version 6 attaches
 * to events, threads and the trace. So the converter adds events of provider `ringpipe` with that
 * data, each before the first event to which it refers: ProcessTraced and ThreadOfProcess as in a
 * merged trace (trace_merge.h), ThreadName, EventLabel and TraceKeyValue. A conversion to version 6
 * takes what they state from these events and omits them (trace_restore.h). ThreadOfProcess of a
 * merged trace states processes, too, and stays.
 */
#ifndef RP_TOOL_TRACE_CONVERT_H
#define RP_TOOL_TRACE_CONVERT_H

#include <ringpipe/reader.h>

#include "tools/trace/event_expression.h"
#include "tools/trace/output.h"
#include "tools/trace/trace_fields.h"

struct rp_trace_convert_result {
	uint64_t events;		/* of the trace, without those that were added or omitted */
	uint64_t added;
	uint64_t lost;
	uint64_t bytes;			/* written */
	uint64_t cut;			/* events whose payload was too large for the form */
	uint64_t labels_dropped;	/* of events of version 4: too many, or damaged */
	bool stopped;
};

struct rp_trace_convert;

struct rp_trace_convert_plan {
	enum rp_trace_form form;
	struct rp_output *output;
	/*
	 * Which events to write; NULL: all. The new trace also has the events that describe it: its
	 * processes, clocks, losses and functions. Its losses are those of the whole trace.
	 */
	struct rp_expression *where;
	/* Events to leave out beyond `where`; or NULL. */
	bool (*omits)(void *data, const struct rp_reader_event *event);
	bool (*tick)(void *data);	/* called about every 4,096 events: false stops; or NULL */
	/*
	 * Called after the last event, to add functions by rp_trace_convert_add_function(); or
	 * NULL. Return: 0; -errno: the conversion fails.
	 */
	int (*add)(void *data, struct rp_trace_convert *convert);
	void *data;			/* their first argument */
};

/*
 * Read the trace until the reader gives no more events or `tick` returns false. The reader may skip
 * damage or end at it. The new trace is complete in each case.
 *
 * Return: 0; what rp_reader_next() returned; 1: the output failed, and `*ret_output_error` is its
 * -errno or -ENOMEM.
 */
int rp_trace_convert(struct rp_reader *reader, const struct rp_trace_convert_plan *plan,
		     struct rp_trace_convert_result *ret_result, int *ret_output_error);

/*
 * Add an event ProcessSymbol of Universal.System to a process, at the time of the last event. 0;
 * -EMSGSIZE; -ENOMEM; -errno of the output.
 */
int rp_trace_convert_add_function(struct rp_trace_convert *convert, uint64_t process,
				  const void *payload, size_t payload_bytes);

#endif
