/* SPDX-License-Identifier: MIT */
/* Shared by the parts of `ringpipe report FILE WHAT`; each WHAT has a file of its own. */
#ifndef RP_TOOL_REPORT_H
#define RP_TOOL_REPORT_H

#include <ringpipe/reader.h>

#include "tools/cli/tool.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/time_range.h"

struct rp_report {
	struct rp_reader *reader;	/* before the first event */
	const char *path;		/* for messages */
	const char *file;		/* NULL: a pipe, which can be read only once */
	const struct rp_tool_options *options;
	struct rp_expression *where;	/* the events to report; NULL: all */
	struct rp_time_range range;	/* of --from and --to */
};

/*
 * Print what the name says on standard output. These functions read the trace to its end, or to
 * where it stops, which they report. Return: the exit status.
 */
int rp_report_summary(const struct rp_report *report);
int rp_report_events(const struct rp_report *report);
int rp_report_spans(const struct rp_report *report);
int rp_report_losses(const struct rp_report *report);
int rp_report_cpu(const struct rp_report *report);
int rp_report_offcpu(const struct rp_report *report);
int rp_report_waits(const struct rp_report *report);
int rp_report_counters(const struct rp_report *report);
int rp_report_gc(const struct rp_report *report);
int rp_report_heap(const struct rp_report *report);
int rp_report_json(const struct rp_report *report);
int rp_report_locks(const struct rp_report *report);
int rp_report_timeline(const struct rp_report *report);
/* --diff; the kind of report, of which spans, counters, cpu and offcpu can be compared. */
int rp_report_diff(const struct rp_report *report);

/*
 * Report why reading ended, if it was not the end of the trace, and the damage that was skipped.
 * `ret` is the result of rp_reader_next(). Call it after the output of the events that were read.
 * Return: the exit status.
 */
int rp_report_end(const struct rp_report *report, int ret);

/* Return: whether the event fulfils --where, or there is none. `process`: that of the event. */
bool rp_report_takes(const struct rp_report *report, const struct rp_reader_event *event,
		     uint64_t process);

/* Print the kinds of reports that begin with `begin`, one on each line. */
void rp_report_offer(const char *begin);

#endif
