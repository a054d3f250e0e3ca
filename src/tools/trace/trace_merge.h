/* SPDX-License-Identifier: MIT */
/*
 * Merges the traces of several processes into one, by time. A nettrace file of version 4 names one
 * process, so events of provider `ringpipe` describe the others (fields in trace_merge_events.c):
 * ProcessTraced before a process's events; ThreadOfProcess before the first event of a thread, and
 * again when another process reuses its id; and ProcessEnd after the process's events, with the
 * numbers of its events, losses and late events, and whether its trace is complete.
 *
 * In version 6, the row of each thread has its process, so there is no ThreadOfProcess. Events of
 * Universal.System and ProcessInfo name the processes for TraceEvent.
 *
 * For each recording that is merged as a whole, TraceMerged states how its times and ids were
 * converted, and TraceKeyValue states each key and value of its head.
 */
#ifndef RP_TOOL_TRACE_MERGE_H
#define RP_TOOL_TRACE_MERGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/trace/event_expression.h"
#include "tools/trace/loss_table.h"
#include "tools/trace/machine_clock.h"
#include "tools/trace/output.h"

#define RP_TRACE_MERGE_PROVIDER "ringpipe"

enum rp_trace_merge_event {
	RP_TRACE_MERGE_PROCESS = 64,		/* the library's ids are lower */
	RP_TRACE_MERGE_THREAD,
	RP_TRACE_MERGE_END,
	RP_TRACE_MERGE_THREAD_NAME,		/* this and EventLabel: only in trace_convert.c */
	RP_TRACE_MERGE_KEY_VALUE,
	RP_TRACE_MERGE_LABEL,
	RP_TRACE_MERGE_SOURCE,
};

struct rp_trace_merge_source {
	int fd;				/* of a file with a trace from its beginning on; or -1 */
	/* Without fd: reads as read(2), but returns -errno. */
	ssize_t (*read)(void *data, void *buffer, size_t size);
	void *data;			/* its first argument */
	pid_t pid;			/* 0: the trace, of version 6, names its processes itself */
	pid_t parent;			/* 0: unknown */
	pid_t inner_pid;		/* in its pid namespace; 0: the same */
	/* Return: the id of a thread that has this one in its pid namespace. NULL: the same. */
	uint64_t (*find_thread)(void *user, uint64_t thread);
	void *find_user;		/* its first argument */
	const char *container;		/* or NULL */
	const char *name;		/* NULL, like the next, if pid is 0 */
	const char *command_line;
	bool is_new;			/* the process began after the trace */
	bool replaces;			/* by execve(2) the program of an earlier source, */
					/* or is of the same process as that source */
	bool exited;			/* it has ended, and no program replaced this one */
	bool is_complete;		/* no more is written into the file */
	bool resumes;			/* of a complete source: continue after damage */
	bool states_progress;		/* no earlier event follows a sequence point */
	struct rp_machine_clock clock;	/* of the source, if it has another one than the trace */
	const struct rp_machine_clock *trace_clock;	/* NULL: the source has the trace's clock */
	const char *path;		/* of a recording that is merged as a whole, or NULL */
	const char *host;		/* of another machine: names of processes get it; or NULL */
	uint64_t id_step;		/* added to ids of processes and threads */
	uint64_t events;		/* set by the merge, like the rest */
	uint64_t lost;
	uint64_t late;			/* events that came after later ones had been written */
	bool whole;			/* the trace has its end */
	bool is_done;			/* the merge needs `fd` no more */
};

/*
 * Merges traces, also while they are written. The merged trace has the events of each source up to
 * its end, or up to the place where the source is cut, or damaged without `resumes`: each event
 * once, with its stack, activity, labels and thread name unchanged, and in the order of time.
 * Payloads are unchanged, too, except that those of recordings that are merged as a whole may get
 * other ids, names and times. A late event gets the time of the last event before it. The losses
 * are summed.
 */
struct rp_trace_merge;

/* Set `ret_found` as soon as the merge writes an event that fulfils the expression, or NULL. */
void rp_trace_merge_watch(struct rp_trace_merge *merge, struct rp_expression *until,
			  volatile bool *ret_found);

/* Begin a trace in the name of `process_id` and in version 4 or 6. 0; -ENOMEM. */
int rp_trace_merge_create(pid_t process_id, uint32_t version, struct rp_output *output,
			  struct rp_trace_merge **ret_merge);
void rp_trace_merge_destroy(struct rp_trace_merge *merge);

/* Add a source, which must exist as long as the merge. 0; -ENOMEM. */
int rp_trace_merge_add(struct rp_trace_merge *merge, struct rp_trace_merge_source *source);

/*
 * Write the events up to `limit_ns` (CLOCK_MONOTONIC) that the sources have, and the end of each
 * source that is complete. 0; -ENOMEM; -errno of write(2). If rp_output_is_full(), a further pass,
 * or rp_trace_merge_finish(), continues where this one ended.
 */
int rp_trace_merge_pass(struct rp_trace_merge *merge, uint64_t limit_ns);

/*
 * Write the rest: all sources are complete. Return: 0; -ENODATA if no source has a header; -ENOMEM;
 * -errno of write(2).
 */
int rp_trace_merge_finish(struct rp_trace_merge *merge);

/* Find the largest losses of processes that events EventsLost have reported so far. */
void rp_trace_merge_find_losses(struct rp_trace_merge *merge, struct rp_loss_worst *ret_worst);

#endif
