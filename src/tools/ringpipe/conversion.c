/* SPDX-License-Identifier: MIT */
/* ringpipe convert: writes a trace in another version of nettrace. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tools/trace/compression.h"
#include "tools/cli/display_text.h"
#include "tools/trace/input.h"
#include "tools/cli/progress.h"
#include "tools/cli/signals.h"
#include "tools/cli/tool.h"
#include "tools/ringpipe/conversion_to.h"
#include "tools/trace/time_range.h"
#include "tools/trace/trace_convert.h"
#include "tools/trace/trace_output.h"

struct conversion {
	struct rp_input input;
	struct rp_trace_output output;
	struct rp_reader *reader;
	enum rp_trace_form form;
	struct rp_expression *where;
	struct rp_progress progress;
};

static bool tick(void *data)
{
	struct conversion *conversion = data;
	struct pollfd wait = { .fd = conversion->input.signal_fd, .events = POLLIN };

	rp_progress_show(&conversion->progress, conversion->input.taken, conversion->input.bytes);
	return poll(&wait, 1, 0) <= 0 || !wait.revents;
}

static void print_result(const struct conversion *conversion,
			 const struct rp_trace_convert_result *result)
{
	char events[RP_TEXT_MAX], added[RP_TEXT_MAX], lost[RP_TEXT_MAX], bytes[RP_TEXT_MAX];

	fprintf(stderr, "%s: %s, %s lost, %s in version %c", conversion->output.output.path,
		rp_text_counted(result->events, "event", events),
		rp_text_count(result->lost, lost),
		rp_text_bytes(result->bytes, bytes),
		conversion->form == RP_TRACE_FORM_V4 ? '4' : '6');
	if (conversion->output.compressor)
		fprintf(stderr, ", %s compressed",
			rp_text_bytes(conversion->output.compressed_bytes, bytes));
	if (result->added)
		fprintf(stderr, "; %s of provider ringpipe for what version 4 lacks",
			rp_text_counted(result->added, "event", added));
	fputc('\n', stderr);
}

/* Return: the exit status. */
static int explain(const struct conversion *conversion, int ret, int output_error,
		   const struct rp_trace_convert_result *result)
{
	const char *path = conversion->output.output.path;
	char buffer[512], count[RP_TEXT_MAX];
	const char *said;

	if (output_error == -ECANCELED) {
		rp_tool_error("stopped; %s lacks the end of the trace", path);
		return RP_EXIT_GAVE_UP;
	}
	if (output_error) {
		rp_tool_error("cannot write %s: %s", path, output_error == -EMSGSIZE ?
			      "an event of the trace is too large" : strerror(-output_error));
		return RP_EXIT_FAILURE;
	}
	if (result->stopped || ret == -ECANCELED) {
		rp_tool_error("stopped; %s has the events up to then", path);
		return RP_EXIT_GAVE_UP;
	}
	said = rp_input_explain(conversion->reader, ret, buffer, sizeof(buffer));
	if (said)
		rp_tool_error("%s: %s; %s has %s", conversion->input.path, said, path,
			      rp_input_given(conversion->reader));
	if (result->cut)
		rp_tool_error("%s: the payloads of %s are too large and were cut", path,
			      rp_text_counted(result->cut, "event", count));
	if (result->labels_dropped)
		rp_tool_error("%s: %s missing: an event had more than 4 MB of them, or "
			      "they are damaged", path,
			      rp_text_counted(result->labels_dropped, "label", count));
	return said || result->cut || result->labels_dropped ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

static int convert(struct conversion *conversion, const struct rp_tool_options *options)
{
	const struct rp_trace_convert_plan plan = {
		.form = conversion->form, .output = &conversion->output.output,
		.where = conversion->where,
		.tick = tick, .data = conversion,
	};
	struct rp_trace_convert_result result;
	int ret, output_error = rp_output_begin(&conversion->output.output), status;

	rp_trace_output_make_interruptible(&conversion->output, conversion->input.signal_fd);
	rp_progress_begin(&conversion->progress, options->given & RP_OPTION_QUIET);
	/* At the limit of the file size, write(2) then fails, and this process survives. */
	signal(SIGXFSZ, SIG_IGN);
	ret = output_error ? 1 : rp_trace_convert(conversion->reader, &plan, &result,
						  &output_error);
	rp_progress_end(&conversion->progress);
	if (!output_error)
		output_error = rp_trace_output_close(&conversion->output);
	status = explain(conversion, ret, output_error, &result);
	if (output_error)
		rp_trace_output_discard(&conversion->output);
	else if (!(options->given & RP_OPTION_QUIET))
		print_result(conversion, &result);
	return status;
}

/* The default is the other version, unless the trace changes in another way. */
static enum rp_trace_form choose_form(uint32_t version, const struct rp_tool_options *options)
{
	if (options->nettrace)
		version = options->nettrace;
	else if (!options->where && !(options->given & (RP_OPTION_FROM | RP_OPTION_RANGE_END)) &&
		 !rp_compression_is_named(options->output))
		version = version == 4 ? 6 : 4;
	if (options->given & RP_OPTION_COMPACT)
		return RP_TRACE_FORM_COMPACT;
	return version == 6 ? RP_TRACE_FORM_V6 : RP_TRACE_FORM_V4;
}

static int open_output(struct conversion *conversion, const char *path,
		       const struct rp_tool_options *options)
{
	int ret = rp_trace_output_open(&conversion->output, path,
				       options->given & RP_OPTION_FORCE);

	if (ret == 0 && rp_trace_output_is_input(&conversion->output, conversion->input.fd)) {
		rp_trace_output_close(&conversion->output);
		ret = -EEXIST;
	}
	return ret;
}

static int convert_into(struct conversion *conversion, const struct rp_tool_options *options)
{
	struct rp_reader_info info = RP_READER_INFO_INIT;
	int status = RP_EXIT_FAILURE;
	char *path;

	rp_reader_get_info(conversion->reader, &info);
	conversion->form = choose_form(info.version, options);
	path = rp_text_expand_pid(options->output, (pid_t)info.process_id);
	if (!path)
		rp_tool_error("out of memory");
	else if (open_output(conversion, path, options) == 0)
		status = convert(conversion, options);
	rp_trace_output_fini(&conversion->output);
	free(path);
	return status;
}

int rp_command_convert(const struct rp_tool_options *options)
{
	struct conversion conversion = { 0 };
	int signal_fd, status, ret;

	if (!options->output) {
		rp_tool_error("convert: requires -o FILE; see ringpipe convert --help");
		return RP_EXIT_USAGE;
	}
	if (options->to)
		return rp_convert_to(options);
	if (options->nettrace == 4 && (options->given & RP_OPTION_COMPACT)) {
		rp_tool_error("convert: version 4 has no compact form");
		return RP_EXIT_USAGE;
	}
	if (options->where &&
	    rp_expression_take("convert: --where", options->where, &conversion.where))
		return RP_EXIT_USAGE;
	signal_fd = rp_signals_open();
	if (rp_input_open(&conversion.input, options->operands[0], signal_fd,
			  &conversion.reader)) {
		rp_expression_destroy(conversion.where);
		return RP_EXIT_FAILURE;
	}
	ret = rp_time_range_apply("convert", options, NULL, options->operands[0], &conversion.input,
				  conversion.reader);
	status = ret == -EINVAL ? RP_EXIT_USAGE : ret ? RP_EXIT_FAILURE :
		 convert_into(&conversion, options);
	rp_reader_close(conversion.reader);
	rp_input_close(&conversion.input);
	rp_signals_close(signal_fd);
	rp_expression_destroy(conversion.where);
	return status;
}
