/* SPDX-License-Identifier: MIT */
/* The summary of a trace, from one pass of the reader. */
#ifndef RP_TOOL_SUMMARY_H
#define RP_TOOL_SUMMARY_H

#include <stdbool.h>
#include <stdio.h>

#include <ringpipe/reader.h>

#include "nettrace/thread_table.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/guids.h"
#include "tools/trace/hot_functions.h"
#include "tools/trace/processes.h"
#include "tools/cli/tool.h"

/* Events whose payload is a part of the summary. */
enum rp_kind_role {
	RP_KIND_PLAIN,			/* all other events */
	RP_KIND_SNAPSHOT,
	RP_KIND_COARSE_TIME,
	RP_KIND_STACKS_CUT,
	RP_KIND_EVENTS_SKIPPED,
	RP_KIND_EVENTS_LOST,
	RP_KIND_MACHINE,
	RP_KIND_PROCESS_INFO,
};

/* A kind of event: all events that agree in these names and numbers. */
struct rp_kind {
	char *provider;
	char *name;
	uint32_t id;
	uint32_t version;
	uint32_t level;
	uint32_t opcode;
	uint64_t keywords;
	bool is_internal;		/* see rp_event_is_internal() */
	bool is_own;			/* written by libringpipe's threads about the session */
	bool is_of_machine;		/* of a recording of the machine */
	enum rp_kind_role role;
	bool is_plain;			/* its events are counted, and that is all */
	uint64_t events;
	uint64_t payload_bytes;
};

/* Losses from the EventsLost events of provider `ringpipe`. */
struct rp_loss {
	uint32_t ring;
	char *reason;
	uint64_t count;
};

struct rp_provider_sum {
	const char *name;
	struct rp_kind **kinds;		/* sorted by number of events; part of summary.kinds */
	size_t kind_count;
	uint64_t events;
	uint64_t payload_bytes;
};

struct rp_summary {
	struct rp_reader_info info;
	struct rp_reader_stats stats;
	uint64_t stacks;		/* events with a stack */
	struct rp_guids activities;	/* activity ids of the events */
	struct rp_guid last_activity;	/* of the previous event */
	uint64_t stacks_cut;		/* stacks that end with RP_FRAME_CUT */
	uint64_t skipped;		/* from EventsSkipped: beyond an event's limit */
	uint64_t rules_missing;		/* from StacksCut: unwind rules that stacks lacked */
	uint64_t threads;		/* the number of `thread_ids` */
	uint64_t last_thread;
	int64_t from_ns;		/* since the start: where the reader's range begins; or 0 */
	int64_t last_ns;		/* time of the latest event, since the start */
	uint64_t window_from, window_to;	/* from the event Snapshot; 0: no snapshot */
	char host[256];			/* name of the machine; "": unknown, like the next */
	char command[1024];		/* of the first process */
	uint64_t step_ns;		/* resolution from the event CoarseTime; 0: exact times */
	struct rp_kind **kinds;		/* sorted by provider, then by number of events */
	size_t kind_count;
	struct rp_provider_sum *providers;	/* sorted by number of events */
	size_t provider_count;
	struct rp_loss **losses;
	size_t loss_count;
	struct rp_hot_functions hot;
	struct rp_processes processes;
	size_t process;			/* process of the visited event; or SIZE_MAX */
	void *kind_tree;
	void *loss_tree;
	struct rp_thread_table thread_ids;	/* threads of the program's events */
};

/* Called for each event. Return: 0, or -errno to stop. */
typedef int (*rp_summary_visit)(const struct rp_reader_event *event, void *data);

/*
 * Read until the reader gives no more events; the reader may skip damage or end at it. The summary
 * holds what was read, whatever is returned; call rp_summary_fini() in any case. `visit` may be
 * NULL.
 *
 * Return: 0; what rp_reader_next() or `visit` returned; -ENOMEM.
 */
int rp_summary_read(struct rp_reader *reader, rp_summary_visit visit, void *data,
		    struct rp_summary *ret_summary);

/*
 * Read as rp_summary_read() does, but count and visit only the events that fulfil the expression;
 * NULL: all. The losses, the processes and the window are still those of the whole trace.
 */
int rp_summary_read_where(struct rp_reader *reader, struct rp_expression *where,
			  rp_summary_visit visit, void *data, struct rp_summary *ret_summary);
void rp_summary_fini(struct rp_summary *summary);

/* The window in which a flight recorder's snapshot is complete; empty if both times are equal. */
struct rp_summary_window {
	int64_t from_utc_ns, to_utc_ns;
};

/* Return: false if the trace has no window. */
bool rp_summary_get_window(const struct rp_summary *summary, struct rp_summary_window *ret_window);

/* How to print a summary. */
struct rp_summary_view {
	const char *path;
	const char *error;		/* or NULL */
	uint64_t top;			/* how many kinds of events to print */
	bool all;			/* internal kinds too */
};

/*
 * Print the summary on standard output: text and JSON with the totals of the trace, CSV with a row
 * for each kind of event. Return: the exit status.
 */
int rp_summary_print(struct rp_summary *summary, const struct rp_summary_view *view,
		     enum rp_format format);

#endif
