/* SPDX-License-Identifier: MIT */
/* ringpipe report: prints the summary of a trace; report_events.c prints the events. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/trace/input.h"
#include "tools/ringpipe/report.h"
#include "tools/trace/summary.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"

static int report_summary(struct rp_reader *reader, const char *path,
			  const struct rp_tool_options *options)
{
	struct rp_summary summary;
	char buffer[512];
	int ret = rp_summary_read(reader, NULL, NULL, &summary), status;
	struct rp_summary_view view = {
		.path = path,
		.error = rp_input_explain(reader, ret, buffer, sizeof(buffer)),
		.top = options->top,
		.all = options->given & RP_OPTION_ALL,
	};

	status = rp_summary_print(&summary, &view, options->format);
	rp_summary_fini(&summary);
	if (view.error) {
		fflush(stdout);
		rp_tool_error("%s: %s; the summary has the events before that", path, view.error);
		status = RP_EXIT_FAILURE;
	}
	return status;
}

static int check_usage(const struct rp_tool_options *options)
{
	const uint64_t given = options->given;

	if ((given & RP_OPTION_EVENTS) && (given & RP_OPTION_TOP)) {
		rp_tool_error("report: --top cannot be used with --events");
		return -EINVAL;
	}
	return 0;
}

int rp_command_report(const struct rp_tool_options *options)
{
	struct rp_input input;
	struct rp_reader *reader;
	int status;

	if (check_usage(options))
		return RP_EXIT_USAGE;
	if (rp_input_open(&input, options->operands[0], -1, &reader))
		return RP_EXIT_FAILURE;
	if (options->given & RP_OPTION_EVENTS)
		status = rp_report_events(reader, input.path, input.bytes ? input.path : NULL,
					  options);
	else
		status = report_summary(reader, input.path, options);
	rp_reader_close(reader);
	rp_input_close(&input);
	return status;
}
