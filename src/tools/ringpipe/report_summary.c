/* SPDX-License-Identifier: MIT */
/* ringpipe report FILE summary */
#include "tools/ringpipe/report.h"

#include <stdio.h>

#include "tools/trace/input.h"
#include "tools/trace/summary.h"

int rp_report_summary(const struct rp_report *report)
{
	const struct rp_tool_options *options = report->options;
	struct rp_summary summary;
	char buffer[512];
	int status, ret = rp_summary_read_where(report->reader, report->where, NULL, NULL,
						&summary);
	struct rp_summary_view view = {
		.path = report->path,
		.error = rp_input_explain(report->reader, ret, buffer, sizeof(buffer)),
		.top = options->top,
		.all = options->given & RP_OPTION_ALL,
	};

	status = rp_summary_print(&summary, &view, options->format);
	rp_summary_fini(&summary);
	return view.error ? rp_report_end(report, ret) : status;
}
