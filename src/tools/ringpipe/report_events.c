/* SPDX-License-Identifier: MIT */
/* ringpipe report FILE events */
#include "tools/ringpipe/report.h"

#include <stdio.h>
#include <string.h>

#include "tools/formats/event_printer.h"
#include "tools/trace/summary.h"

struct event_report {
	struct rp_event_printer printer;
	const struct rp_summary *summary;	/* incomplete while events are printed */
};

static int print_event(const struct rp_reader_event *event, void *data)
{
	struct event_report *report = data;
	const struct rp_summary *summary = report->summary;
	/* The trace has events of several processes. */
	const bool is_found = summary->process != SIZE_MAX;
	const uint64_t process = is_found ? summary->processes.rows[summary->process].pid :
				 event->process;

	return rp_event_printer_print(&report->printer, event, process,
				      is_found || process != summary->info.process_id);
}

int rp_report_events(const struct rp_report *report)
{
	const struct rp_tool_options *options = report->options;
	struct rp_summary summary;
	struct event_report events = {
		.printer = {
			.stream = stdout,
			.format = options->format,
			.all = options->given & RP_OPTION_ALL,
			.where = report->where,
			.info.size = sizeof(events.printer.info),
		},
		.summary = &summary,
	};
	int ret;

	rp_reader_get_info(report->reader, &events.printer.info);
	/* A pipe may be a live session, where each event must appear immediately. */
	if (!report->file)
		setvbuf(stdout, NULL, _IOLBF, 0);
	rp_event_printer_begin(&events.printer);
	ret = report->file ?
	      rp_event_printer_name_functions(&events.printer, report->file) : 0;
	if (ret == 0) {
		ret = rp_summary_read(report->reader, print_event, &events, &summary);
		rp_summary_fini(&summary);
	}
	rp_event_printer_fini(&events.printer);
	if (!ferror(stdout))
		return rp_report_end(report, ret);
	rp_tool_error("cannot write the output: %s", strerror(-ret));
	return RP_EXIT_FAILURE;
}
