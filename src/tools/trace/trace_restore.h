/* SPDX-License-Identifier: MIT */
/*
 * Takes the events that a conversion to version 4 added out of a trace, and keeps what they state
 * for version 6: the names of threads, the labels of the next event, and the pairs of the trace.
 */
#ifndef RP_TOOL_TRACE_RESTORE_H
#define RP_TOOL_TRACE_RESTORE_H

#include <ringpipe/reader.h>

#include "nettrace/metadata.h"
#include "nettrace/outbuf.h"
#include "nettrace/thread_rows.h"

#define RP_TRACE_ADDED_VERSION 2	/* those of a merged trace have lower versions */

enum rp_trace_added {
	RP_TRACE_ADDED_PROCESS, RP_TRACE_ADDED_THREAD, RP_TRACE_ADDED_THREAD_NAME,
	RP_TRACE_ADDED_KEY_VALUE, RP_TRACE_ADDED_LABEL, RP_TRACE_ADDED_COUNT,
};

extern const struct rp_definition rp_trace_added_definitions[RP_TRACE_ADDED_COUNT];

/* Initialise it with zeros. */
struct rp_trace_restore {
	struct rp_outbuf pairs;		/* keys and values as in a block Trace */
	uint32_t pair_count;
	/* Labels of the next event: a list without its end; or held payloads of EventLabel. */
	struct rp_outbuf labels;
	size_t last;			/* offset of the last one in `labels` */
	uint64_t dropped;		/* of these: too many, or damaged */
	size_t given;			/* bytes of `labels` by rp_trace_restore_next_held() */
	struct rp_outbuf list;		/* made of these and the ids of the event */
	struct rp_thread_table names;	/* thread -> place in `rows`, plus 1 */
	struct rp_thread_row *rows;	/* which have nothing but the name */
	size_t row_count, row_capacity;
};

/* Return: whether a conversion to version 4 added events of the type. */
bool rp_trace_restore_is_added(const struct rp_reader_type *type);

/*
 * Return: 1: the event is one of these, and was taken; 0: it is another one, or the trace has more
 * pairs than its head has space for; -ENOMEM.
 */
int rp_trace_restore_take(struct rp_trace_restore *restore, const struct rp_reader_event *event);

/*
 * Hold the payload of an EventLabel until the caller knows whether the next event stays. Return: 1:
 * the event is one, and was taken; 0: it is another one; -ENOMEM.
 */
int rp_trace_restore_hold(struct rp_trace_restore *restore, const struct rp_reader_event *event);

/* Append the next held payload to `payload`. Return: false: no more are held. */
bool rp_trace_restore_next_held(struct rp_trace_restore *restore, struct rp_outbuf *payload);

/* Return: the row with the name of a thread, valid until the next call; NULL: no name is known. */
const struct rp_thread_row *rp_trace_restore_row(const struct rp_trace_restore *restore,
						 uint64_t thread);

/*
 * Make the label list of the event from its ids and the labels taken before it, which are then
 * forgotten. `ret_list`: NULL if there were no labels. 0; -ENOMEM.
 */
int rp_trace_restore_labels(struct rp_trace_restore *restore, const struct rp_reader_event *event,
			    const struct rp_outbuf **ret_list);

void rp_trace_restore_fini(struct rp_trace_restore *restore);

#endif
