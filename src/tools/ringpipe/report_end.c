/* SPDX-License-Identifier: MIT */
/* All reports call these functions, for an event and at the end of the trace. */
#include "tools/ringpipe/report.h"

#include <stdio.h>

#include "tools/trace/input.h"

int rp_report_end(const struct rp_report *report, int ret)
{
	char buffer[512];
	const char *error = rp_input_explain(report->reader, ret, buffer, sizeof(buffer));

	if (!error)
		return RP_EXIT_OK;
	fflush(stdout);
	rp_tool_error("%s: %s; the report has %s", report->path, error,
		      rp_input_given(report->reader));
	return RP_EXIT_FAILURE;
}

bool rp_report_takes(const struct rp_report *report, const struct rp_reader_event *event,
		     uint64_t process)
{
	return !report->where || rp_expression_matches(report->where, event, process);
}
