/* SPDX-License-Identifier: MIT */
/*
 * Merges the traces of several processes into one, by time. A nettrace file of version 4 names one
 * process, so events of provider `ringpipe` describe the others (fields in trace_merge.c):
 * ProcessTraced before a process's events; ThreadOfProcess before the first event of a thread, and
 * again when another process reuses its id; and ProcessEnd after the process's events, with the
 * numbers of its events and losses and whether its trace is complete.
 *
 * In version 6, the row of each thread has its process, so there is no ThreadOfProcess. Events of
 * Universal.System and ProcessInfo name the processes for TraceEvent.
 */
#ifndef RP_TOOL_TRACE_MERGE_H
#define RP_TOOL_TRACE_MERGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/ringpipe/output.h"

#define RP_TRACE_MERGE_PROVIDER "ringpipe"

enum rp_trace_merge_event {
	RP_TRACE_MERGE_PROCESS = 64,		/* the library's ids are lower */
	RP_TRACE_MERGE_THREAD,
	RP_TRACE_MERGE_END,
};

struct rp_trace_merge_source {
	int fd;				/* of a trace; its offset is at the beginning */
	pid_t pid;			/* 0: the trace, of version 6, names its processes itself */
	pid_t parent;			/* 0: unknown */
	const char *name;		/* NULL, like the next, if pid is 0 */
	const char *command_line;
	bool is_new;			/* the process began after the trace */
	bool replaces;			/* by execve(2) the program of an earlier source */
	bool exited;			/* it has ended, and no program replaced this one */
	uint64_t events;		/* set by rp_trace_merge() */
	uint64_t lost;
	bool whole;			/* the trace has its end */
};

/*
 * Reads all sources and writes one trace, in the name of `process_id` and in version 4 or 6. The
 * trace has the events of each source up to its end, or up to the place where the source is cut or
 * damaged: each event once, with its payload, time, stack and activity unchanged. The losses are
 * summed.
 *
 * Return: 0; -ENODATA if no source has a header; -ENOMEM; -errno of write(2).
 */
int rp_trace_merge(struct rp_trace_merge_source *sources, size_t count, pid_t process_id,
		   uint32_t version, struct rp_output *output);

#endif
