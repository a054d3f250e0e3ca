/* SPDX-License-Identifier: MIT */
/*
 * Converts a trace of one version into another. Version 4 lacks what version 6 attaches to events,
 * threads and the trace, so events of provider `ringpipe` state it there, each before the first
 * event that it is about: ProcessTraced and ThreadOfProcess as in a merged trace (trace_merge.h),
 * ThreadName, EventLabel and TraceKeyValue. In the other direction, ThreadOfProcess gives each
 * thread its process again.
 */
#ifndef RP_TOOL_TRACE_CONVERT_H
#define RP_TOOL_TRACE_CONVERT_H

#include <ringpipe/reader.h>

#include "tools/ringpipe/output.h"
#include "tools/ringpipe/trace_fields.h"

struct rp_trace_convert_result {
	uint64_t events;		/* of the trace, without those that were added */
	uint64_t added;
	uint64_t lost;
	uint64_t bytes;			/* written */
	uint64_t cut;			/* events whose payload was too large for the form */
	bool stopped;
};

struct rp_trace_convert;

struct rp_trace_convert_plan {
	enum rp_trace_form form;
	struct rp_output *output;
	bool (*tick)(void *data);	/* called about every 4,096 events: false stops; or NULL */
	/*
	 * Called after the last event, to add events by rp_trace_convert_add(); or NULL. Return: 0;
	 * -errno: the conversion fails.
	 */
	int (*add)(void *data, struct rp_trace_convert *convert);
	void *data;			/* their first argument */
};

/*
 * Read the trace up to its end, to its damage, or until `tick` stops it. The new trace is complete
 * in each case.
 *
 * Return: 0; what rp_reader_next() returned; 1: the output failed, and `*ret_output_error` is its
 * -errno or -ENOMEM.
 */
int rp_trace_convert(struct rp_reader *reader, const struct rp_trace_convert_plan *plan,
		     struct rp_trace_convert_result *ret_result, int *ret_output_error);

/* An event that the other trace does not have. */
struct rp_trace_added_event {
	const char *provider, *name;
	uint32_t id;			/* of the event in its provider */
	uint64_t process, thread;
	const void *payload;		/* of an event without declared fields */
	size_t payload_bytes;
};

/* Add an event at the time of the last one. 0; -EMSGSIZE; -ENOMEM; -errno of the output. */
int rp_trace_convert_add(struct rp_trace_convert *convert,
			 const struct rp_trace_added_event *added);

#endif
