/* SPDX-License-Identifier: MIT */
/*
 * Activity ids: which request, of all those under way, an event belongs to. Each thread has a
 * current id and a related one; every event it writes carries those that are not zero.
 *
 * Work that continues in another thread takes its ids along: the thread that hands the work over
 * copies them with rp_activity_get(), and the thread that takes it over calls
 *
 *	rp_activity_get(&before);
 *	rp_activity_set(&job->activity);
 *	...
 *	rp_activity_set(&before);
 */
#ifndef RINGPIPE_ACTIVITY_H
#define RINGPIPE_ACTIVITY_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

/* A thread's two ids. */
struct rp_activity {
	struct rp_guid id;
	struct rp_guid related;
};

/* Copy the calling thread's ids. Context: any, signal handlers included. */
RP_PUBLIC void rp_activity_get(struct rp_activity *ret_activity);

/*
 * Set the calling thread's ids. A write that the call interrupts has the old ids or the new ones.
 *
 * Context: any, signal handlers included.
 */
RP_PUBLIC void rp_activity_set(const struct rp_activity *activity);

/*
 * Make an id that no other call in this process returns, without a lock or a system call.
 * Context: any, signal handlers included.
 */
RP_PUBLIC void rp_activity_generate(struct rp_guid *ret_id);

/*
 * Begin a new activity as the child of the current one: the current id becomes the related id, and
 * a fresh one current. Give `ret_outer` to rp_activity_end(). Context: any, signal handlers
 * included.
 */
RP_PUBLIC void rp_activity_begin(struct rp_activity *ret_outer);

/* End an activity: the ids of `outer` are current again. Context: any, signal handlers included. */
RP_PUBLIC void rp_activity_end(const struct rp_activity *outer);

/*
 * Distributed traces, by the header `traceparent` of the W3C's Trace Context:
 *
 *	if (!header || rp_traceparent_parse(header, strlen(header), &activity, &flags) < 0)
 *		rp_traceparent_generate(&activity, &flags);
 *	rp_activity_set(&activity);
 *	...
 *	rp_traceparent_print(&activity, flags, text);	for the requests that this one makes
 *
 * The activity id is the trace id, so tools show its digits with every event of the request. The
 * related id is two spans, of 8 bytes each: the caller's, zero without one, and our own, which is
 * who the next service sees as its caller. (.NET's own events have their trace ids in payloads, if
 * at all.)
 */
#define RP_TRACEPARENT_SIZE 56u	/* of the text, with its NUL */

enum rp_trace_flags {
	RP_TRACE_SAMPLED = 1,		/* the caller may have recorded the trace */
	RP_TRACE_RANDOM_ID = 2,		/* the last 7 bytes of the trace id are random */
};

/*
 * Parse a traceparent and create a new span in its trace. `text` need not end with NUL. For
 * versions after 00, it reads the fields of version 00. It drops unknown flags, as the W3C
 * requires.
 * @size: bytes of `text`, without a NUL.
 * @ret_flags: enum rp_trace_flags.
 *
 * Context: any, signal handlers included.
 * Return: 0; -EINVAL: not a valid traceparent: it has upper-case digits, surrounding blanks, an id
 * of zeros, version ff, or bytes after a traceparent of version 00.
 */
RP_PUBLIC int rp_traceparent_parse(const char *text, size_t size,
				   struct rp_activity *ret_activity, uint8_t *ret_flags);

/*
 * Begin a new trace with a new span; not sampled.
 * @ret_flags: enum rp_trace_flags.
 *
 * Context: any.
 */
RP_PUBLIC void rp_traceparent_generate(struct rp_activity *ret_activity, uint8_t *ret_flags);

/*
 * Print the traceparent, of version 00, that goes out with requests. The activity is one made by
 * the two calls above.
 * @flags: enum rp_trace_flags.
 * @text: space for the traceparent and its NUL.
 *
 * Context: any, signal handlers included.
 */
RP_PUBLIC void rp_traceparent_print(const struct rp_activity *activity, uint8_t flags,
				    char text[RP_TRACEPARENT_SIZE]);

RP_END_DECLS

#endif
