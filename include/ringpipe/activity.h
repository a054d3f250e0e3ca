/* SPDX-License-Identifier: MIT */
/*
 * Activity ids identify the request to which an event belongs. Each thread has a current id and a
 * related id. Every event that the thread writes carries those of the two that are not zero.
 *
 * When work moves to another thread, its ids have to move with it. The thread that hands the work
 * over copies its ids with rp_activity_get(), and the thread that continues the work calls
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

/* The two ids of a thread. */
struct rp_activity {
	struct rp_guid id;
	struct rp_guid related;
};

/* Copy the calling thread's ids. Context: any, signal handlers included. */
RP_PUBLIC void rp_activity_get(struct rp_activity *ret_activity);

/*
 * Set the calling thread's ids. If a signal handler calls this function in the middle of a write,
 * the event of that write has either the old ids or the new ones.
 *
 * Context: any, signal handlers included.
 */
RP_PUBLIC void rp_activity_set(const struct rp_activity *activity);

/*
 * Generate an id that no other call in this process returns. The function takes no lock and makes
 * no system call.
 * Context: any, signal handlers included.
 */
RP_PUBLIC void rp_activity_generate(struct rp_guid *ret_id);

/*
 * Begin a new activity as the child of the current one. The current id becomes the related id, and
 * a newly generated id becomes the current one. Pass `ret_outer` to rp_activity_end().
 * Context: any, signal handlers included.
 */
RP_PUBLIC void rp_activity_begin(struct rp_activity *ret_outer);

/*
 * End an activity and make the ids of `outer` current again.
 * Context: any, signal handlers included.
 */
RP_PUBLIC void rp_activity_end(const struct rp_activity *outer);

/*
 * Distributed traces use the header `traceparent` of the W3C's Trace Context:
 *
 *	if (!header || rp_traceparent_parse(header, strlen(header), &activity, &flags) < 0)
 *		rp_traceparent_generate(&activity, &flags);
 *	rp_activity_set(&activity);
 *	...
 *	rp_traceparent_print(&activity, flags, text);	for outgoing requests
 *
 * The activity id is the trace id, so tools show its digits with every event of the request. The
 * related id consists of two span ids of 8 bytes each: first the caller's, which is zero if there
 * is no caller, then our own. The next service receives our own span id as that of its caller.
 * (.NET's own events carry trace ids in their payloads, if at all.)
 */
#define RP_TRACEPARENT_SIZE 56u	/* bytes of the text, including the NUL */

enum rp_trace_flags {
	RP_TRACE_SAMPLED = 1,		/* the caller may have recorded the trace */
	RP_TRACE_RANDOM_ID = 2,		/* the last 7 bytes of the trace id are random */
};

/*
 * Parse a traceparent and create a new span in its trace. `text` need not end with NUL. If the
 * version is above 00, the function reads only the fields that version 00 defines. It drops unknown
 * flags, as the W3C requires.
 *
 * Context: any, signal handlers included.
 * Return: 0; -EINVAL if the text is not a valid traceparent: it has upper-case digits, surrounding
 * blanks, an id of zeros, version ff, or bytes after a traceparent of version 00.
 */
RP_PUBLIC int rp_traceparent_parse(const char *text, size_t size,
				   struct rp_activity *ret_activity, uint8_t *ret_flags);

/* Begin a new trace with a new span. The trace is not marked as sampled. Context: any. */
RP_PUBLIC void rp_traceparent_generate(struct rp_activity *ret_activity, uint8_t *ret_flags);

/*
 * Print the traceparent, of version 00, for outgoing requests. `activity` comes from
 * rp_traceparent_parse() or rp_traceparent_generate().
 *
 * Context: any, signal handlers included.
 */
RP_PUBLIC void rp_traceparent_print(const struct rp_activity *activity, uint8_t flags,
				    char text[RP_TRACEPARENT_SIZE]);

RP_END_DECLS

#endif
