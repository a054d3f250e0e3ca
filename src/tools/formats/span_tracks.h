/* SPDX-License-Identifier: MIT */
/*
 * The tracks of a timeline: one for each thread, with the spans that it started.
 *
 * A span nests in its thread's track if one thread started and stopped it, and each span that the
 * thread started in the meantime had stopped before. All other spans are asynchronous: they need
 * tracks of their own. A span also is asynchronous if the clock went backwards around it.
 *
 * Each span keeps a text of the caller from its start to its stop, in bounded memory.
 */
#ifndef RP_TOOL_SPAN_TRACKS_H
#define RP_TOOL_SPAN_TRACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#include "tools/analysis/trace_spans.h"
#include "tools/trace/processes.h"

/* The texts of all open spans have this many bytes at most; further spans start without one. */
#define RP_TRACK_TEXTS_MAX (256u << 20)

struct rp_process_track {
	uint64_t process;
	uint64_t number;		/* from 1 on, unique */
	char *name;			/* NULL: not known yet */
	struct rp_process_track *next;	/* for span_tracks.c only */
};

struct rp_thread_track {
	uint64_t process, thread;
	const struct rp_process_track *owner;
	uint64_t number;		/* from 1 on, unique */
	char *name;			/* of the thread; NULL: not known yet */
	/* For span_tracks.c only. */
	struct rp_thread_track *next;
	struct rp_open_track_span *top;
	int64_t latest_ns;
	bool has_times;
};

/* A span that has stopped, or, at the end of the trace, a span that never stopped. */
struct rp_track_span {
	const struct rp_trace_span *span;
	const struct rp_reader_event *stop;	/* NULL: it never stopped */
	struct rp_thread_track *track;		/* of the thread that started it */
	bool nests;
	const char *text;			/* what the format kept; NULL: nothing */
	size_t text_bytes;
	void *user;				/* what start() set */
};

/* A child span started while its parent, on another thread, was open. */
struct rp_track_flow {
	uint64_t number;			/* unique */
	int64_t time_ns;			/* of the start of the child */
	struct rp_thread_track *from, *to;
};

/* The functions of a format. Each function returns 0 or -errno, which ends the conversion. */
struct rp_track_calls {
	/* A process or thread is new, or has a new name. */
	int (*process)(struct rp_process_track *process, void *data);
	int (*thread)(struct rp_thread_track *track, void *data);
	/* Make the text to keep for a span that starts; a flow to it is passed before. */
	int (*start)(const struct rp_reader_event *event, const char **ret_text, size_t *ret_bytes,
		     void *data);
	int (*span)(const struct rp_track_span *span, void *data);
	/* From the parent's track; or NULL. */
	int (*flow)(const struct rp_track_flow *flow, void *data);
	/* Free the user pointer of a span; or NULL if start() sets none. */
	void (*release)(void *user, void *data);
	/* An event that is no part of a span, or the start of one whose text is not kept. */
	int (*instant)(const struct rp_reader_event *event, struct rp_thread_track *track,
		       void *data);
};

struct rp_span_tracks {
	const struct rp_track_calls *calls;
	void *data;
	/* A span that starts at the very time of the span around it is asynchronous. */
	bool starts_differ;
	void *user;			/* start() may set it, for the span that starts */
	/* For span_tracks.c only. */
	struct rp_trace_spans spans;
	struct rp_processes processes;
	size_t processes_seen;
	struct rp_thread_track **threads;
	size_t thread_count, thread_slots;
	struct rp_thread_track *last;
	struct rp_process_track **process_slots;
	size_t process_count, process_slot_count;
	struct rp_open_track_span **activities;
	size_t activity_count, activity_slots;
	size_t text_bytes;
	uint64_t flow_count;
	int64_t latest_ns;
	bool has_events;
	/* The event that is being taken. */
	const struct rp_reader_event *event;
	struct rp_thread_track *track;
	bool is_taken;			/* a part of a span */
	bool is_ending;
	int dropped_error;		/* of a span that was dropped meanwhile */
};

void rp_span_tracks_init(struct rp_span_tracks *tracks, const struct rp_track_calls *calls,
			 void *data);

/* Take the next event of the trace. Return: 0; -ENOMEM; what a call returned. */
int rp_span_tracks_take(struct rp_span_tracks *tracks, const struct rp_reader_event *event);

/* Pass the spans that never stopped. Return: as rp_span_tracks_take(). */
int rp_span_tracks_end(struct rp_span_tracks *tracks);

/* Return: the user pointer of the youngest open span with an activity id; NULL: there is none. */
void *rp_span_tracks_find(const struct rp_span_tracks *tracks, const struct rp_guid *activity);

/* Return: the same of the innermost open span on the thread of the event that is being taken. */
void *rp_span_tracks_innermost(const struct rp_span_tracks *tracks);

void rp_span_tracks_fini(struct rp_span_tracks *tracks);

#endif
