/* SPDX-License-Identifier: MIT */
/* ringpipe report FILE WHAT: opens the trace and calls the report's function. */
#include "tools/ringpipe/report.h"

#include <stdio.h>
#include <string.h>

#include "tools/trace/input.h"

static const struct report_kind {
	const char *name;
	uint64_t options;		/* those of the command that it does not ignore */
	int (*run)(const struct rp_report *report);
} kinds[] = {
	{ "summary", RP_OPTION_ALL | RP_OPTION_TOP | RP_OPTION_WHERE, rp_report_summary },
	{ "events", RP_OPTION_ALL | RP_OPTION_WHERE, rp_report_events },
	{ "spans", RP_OPTION_SPAN | RP_OPTION_SLOWEST, rp_report_spans },
	{ "cpu", RP_OPTION_BY | RP_OPTION_FUNCTION | RP_OPTION_TOP, rp_report_cpu },
	{ "offcpu", RP_OPTION_BY | RP_OPTION_FUNCTION | RP_OPTION_TOP, rp_report_offcpu },
	{ "waits", RP_OPTION_TOP, rp_report_waits },
};

#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))
/* Every report has them. */
#define COMMON (RP_OPTION_FORMAT | RP_OPTION_HELP)

void rp_report_offer(const char *begin)
{
	for (size_t i = 0; i < KIND_COUNT; i++) {
		if (!strncmp(kinds[i].name, begin, strlen(begin)))
			puts(kinds[i].name);
	}
}

int rp_report_end(const struct rp_report *report, int ret)
{
	char buffer[512];
	const char *error = rp_input_explain(report->reader, ret, buffer, sizeof(buffer));

	if (!error)
		return RP_EXIT_OK;
	fflush(stdout);
	rp_tool_error("%s: %s; the report has the events before that", report->path, error);
	return RP_EXIT_FAILURE;
}

/* Return: NULL, after an error line, if there is no such report or an option is not for it. */
static const struct report_kind *find_kind(const struct rp_tool_options *options)
{
	const char *name = options->operand_count > 1 ? options->operands[1] : kinds[0].name;
	const struct report_kind *kind = NULL;
	const char *unused;

	for (size_t i = 0; i < KIND_COUNT; i++) {
		if (!strcmp(kinds[i].name, name))
			kind = &kinds[i];
	}
	if (!kind) {
		rp_tool_error("report: no report is called '%s'; see ringpipe report --help", name);
		return NULL;
	}
	unused = rp_options_name(options->given & ~(kind->options | COMMON));
	if (unused) {
		rp_tool_error("report: --%s cannot be used with %s", unused, name);
		return NULL;
	}
	return kind;
}

int rp_command_report(const struct rp_tool_options *options)
{
	const struct report_kind *kind = find_kind(options);
	struct rp_report report = { .options = options };
	struct rp_input input;
	int status;

	if (!kind)
		return RP_EXIT_USAGE;
	if (options->where &&
	    rp_expression_take("report: --where", options->where, &report.where))
		return RP_EXIT_USAGE;
	if (rp_input_open(&input, options->operands[0], -1, &report.reader)) {
		rp_expression_destroy(report.where);
		return RP_EXIT_FAILURE;
	}
	report.path = input.path;
	report.file = input.bytes ? input.path : NULL;
	status = kind->run(&report);
	rp_reader_close(report.reader);
	rp_input_close(&input);
	rp_expression_destroy(report.where);
	return status;
}
