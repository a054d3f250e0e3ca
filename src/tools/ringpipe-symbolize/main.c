/* SPDX-License-Identifier: MIT */
/*
 * ringpipe-symbolize: `ringpipe symbolize` executes it with the same arguments, so that `ringpipe`
 * needs no elfutils.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "nettrace/format.h"
#include "tools/ringpipe-symbolize/code_names.h"
#include "tools/ringpipe-symbolize/trace_code.h"
#include "tools/cli/display_text.h"
#include "tools/trace/input.h"
#include "tools/trace/system_event.h"
#include "tools/cli/progress.h"
#include "tools/cli/signals.h"
#include "tools/cli/symbolize_options.h"
#include "tools/cli/tool.h"
#include "tools/trace/trace_output.h"

/* Files without names, in the messages. */
#define FILES_SHOWN 10

struct symbolize {
	const struct rp_tool_options *options;
	struct rp_trace_code code;
	struct rp_code_names names;
	struct rp_trace_output output;
	struct rp_progress progress;
	struct rp_input input;
	int signal_fd;
};

static bool is_over(void *data)
{
	const struct symbolize *symbolize = data;
	struct pollfd wait = { .fd = symbolize->signal_fd, .events = POLLIN };

	return poll(&wait, 1, 0) > 0 && wait.revents;
}

/* Show progress while the trace is read for the second time. */
static bool tick(void *data)
{
	struct symbolize *symbolize = data;

	rp_progress_show(&symbolize->progress, symbolize->input.taken, symbolize->input.bytes);
	return !is_over(symbolize);
}

/* Functions of the trace that get names with inlined functions. */
static bool omits(void *data, const struct rp_reader_event *event)
{
	const struct symbolize *symbolize = data;
	struct rp_cursor cursor = rp_cursor_over(event->payload, event->payload_bytes);

	if (!symbolize->options->inlines || !rp_system_is_event(event) ||
	    event->type->id != RP_SYSTEM_FUNCTION)
		return false;
	(void)rp_system_take_number(&cursor);
	(void)rp_system_take_number(&cursor);
	return rp_code_names_replace(&symbolize->names, event->process,
				     rp_system_take_number(&cursor));
}

static int add(void *data, struct rp_trace_convert *convert)
{
	struct symbolize *symbolize = data;

	return rp_code_names_add(&symbolize->names, convert);
}

/* Find out which addresses have no names. 0; -errno, after an error line. */
static int read_code(struct symbolize *symbolize)
{
	const char *path = symbolize->options->operands[0];
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_reader *reader;
	int ret = rp_input_open(&symbolize->input, path, symbolize->signal_fd, &reader), read = 0;

	if (ret < 0)
		return ret;
	rp_reader_get_info(reader, &info);
	if (info.version != RP_NETTRACE_V6) {
		rp_tool_error("%s: only traces of version 6 name files and functions; ringpipe "
			      "record writes them", path);
		ret = -EINVAL;
	}
	while (ret == 0 && (read = rp_reader_next(reader, &event)) == 1) {
		ret = rp_trace_code_take(&symbolize->code, &info, &event);
		rp_progress_show(&symbolize->progress, symbolize->input.taken,
				 symbolize->input.bytes);
	}
	rp_reader_close(reader);
	rp_input_close(&symbolize->input);
	if (ret == 0)
		ret = read == -ECANCELED ? read : rp_trace_code_finish(&symbolize->code);
	if (ret == -ENOMEM)
		rp_tool_error("out of memory");
	return ret;
}

/* Report the files whose functions have no names. */
static void report_missing(const struct symbolize *symbolize)
{
	const struct rp_trace_code *code = &symbolize->code;
	char count[RP_TEXT_MAX];
	size_t shown = 0, more = 0;

	for (size_t i = 0; i < code->file_count; i++) {
		const struct rp_code_file *file = &code->files[i];
		char id[2 * RP_BUILD_ID_MAX + 1] = "unknown";
		bool is_found;
		size_t missing = rp_code_names_missing(&symbolize->names, i, &is_found);

		if (!missing)
			continue;
		if (shown++ >= FILES_SHOWN) {
			more++;
			continue;
		}
		for (uint32_t j = 0; j < file->build_id_bytes; j++)
			snprintf(id + 2 * j, 3, "%02x", file->build_id[j]);
		rp_tool_say(stderr, "    %s: %s without a name; %s (build id %s)",
			    file->path, rp_text_counted(missing, "address", count), is_found ?
			    "the file here names no function there" : "no such file here", id);
	}
	if (more)
		rp_tool_say(stderr, "    and %s", rp_text_counted(more, "more file", count));
}

static int finish(struct symbolize *symbolize, int error,
		  const struct rp_trace_convert_result *result)
{
	const struct rp_code_names *names = &symbolize->names;
	const char *path = symbolize->output.output.path;
	char functions[RP_TEXT_MAX], named[RP_TEXT_MAX], nameless[RP_TEXT_MAX];

	rp_progress_end(&symbolize->progress);
	if (error == 0)
		error = rp_trace_output_close(&symbolize->output);
	if (error == -ECANCELED)
		rp_tool_error("stopped; %s lacks the end of the trace", path);
	else if (error)
		rp_tool_error("cannot write %s: %s", path, strerror(-error));
	if (error) {
		rp_trace_output_discard(&symbolize->output);
		return error == -ECANCELED ? RP_EXIT_GAVE_UP : RP_EXIT_FAILURE;
	}
	if (result->stopped) {
		rp_tool_error("stopped; %s has the events up to then", path);
		return RP_EXIT_GAVE_UP;
	}
	if (!(symbolize->options->given & RP_OPTION_QUIET)) {
		rp_tool_say(stderr, "%s: added %s, for %s; %s without a name", path,
			    rp_text_counted(names->functions, "function", functions),
			    rp_text_counted(names->named, "address", named),
			    rp_text_counted(names->nameless, "address", nameless));
		report_missing(symbolize);
	}
	return RP_EXIT_OK;
}

static int write_trace(struct symbolize *symbolize)
{
	const struct rp_trace_convert_plan plan = {
		.form = RP_TRACE_FORM_V6, .output = &symbolize->output.output, .tick = tick,
		.add = add, .omits = omits, .data = symbolize,
	};
	const char *path = symbolize->options->operands[0];
	struct rp_trace_convert_result result = { 0 };
	struct rp_reader *reader;
	const char *said;
	char buffer[512];
	int ret, error = rp_input_open(&symbolize->input, path, symbolize->signal_fd, &reader);
	int status;

	if (error < 0) {
		rp_trace_output_discard(&symbolize->output);
		return RP_EXIT_FAILURE;
	}
	rp_trace_output_make_interruptible(&symbolize->output, symbolize->signal_fd);
	error = rp_output_begin(&symbolize->output.output);
	ret = error ? 1 : rp_trace_convert(reader, &plan, &result, &error);
	status = finish(symbolize, error, &result);
	said = rp_input_explain(reader, ret < 0 ? ret : 0, buffer, sizeof(buffer));
	if (status == RP_EXIT_OK && said) {
		rp_tool_error("%s: %s; the new trace has %s", path, said, rp_input_given(reader));
		status = RP_EXIT_FAILURE;
	}
	rp_reader_close(reader);
	rp_input_close(&symbolize->input);
	return status;
}

static int open_output(struct symbolize *symbolize)
{
	const struct rp_tool_options *options = symbolize->options;
	struct rp_input input;
	int ret = rp_input_open_bytes(&input, options->operands[0], -1);

	if (ret < 0)
		return ret;
	ret = rp_trace_output_open(&symbolize->output, options->output,
				   options->given & RP_OPTION_FORCE);
	if (ret == 0 && rp_trace_output_is_input(&symbolize->output, input.fd)) {
		rp_trace_output_close(&symbolize->output);
		ret = -EEXIST;
	}
	rp_input_close(&input);
	return ret;
}

static int run(struct symbolize *symbolize)
{
	int ret = open_output(symbolize), status = RP_EXIT_FAILURE;

	if (ret < 0)
		return RP_EXIT_FAILURE;
	/* At the limit of the file size, write(2) then fails, and this process survives. */
	signal(SIGXFSZ, SIG_IGN);
	rp_progress_begin(&symbolize->progress, symbolize->options->given & RP_OPTION_QUIET);
	ret = read_code(symbolize);
	if (ret == 0) {
		ret = rp_code_names_find(&symbolize->names);
		if (ret == -ENOMEM)
			rp_tool_error("out of memory");
	}
	rp_progress_end(&symbolize->progress);
	if (ret == 0 && !is_over(symbolize))
		return write_trace(symbolize);
	if (ret == 0 || ret == -ECANCELED) {
		rp_tool_error("stopped before %s was written", symbolize->output.output.path);
		status = RP_EXIT_GAVE_UP;
	}
	rp_trace_output_discard(&symbolize->output);
	return status;
}

static int run_options(const struct rp_tool_options *options)
{
	struct symbolize symbolize = { .options = options };
	int status;

	symbolize.names = (struct rp_code_names){
		.code = &symbolize.code, .directories = options->symbols,
		.is_over = is_over, .data = &symbolize, .has_inlines = options->inlines,
	};
	symbolize.code.is_renamed = options->inlines;
	if (!options->output) {
		rp_tool_error("symbolize: requires -o FILE; see ringpipe symbolize --help");
		return RP_EXIT_USAGE;
	}
	if (!strcmp(options->operands[0], "-")) {
		rp_tool_error("symbolize: reads the trace twice, so it needs a file");
		return RP_EXIT_USAGE;
	}
	symbolize.signal_fd = rp_signals_open();
	status = run(&symbolize);
	rp_code_names_fini(&symbolize.names);
	rp_trace_code_fini(&symbolize.code);
	rp_trace_output_fini(&symbolize.output);
	rp_signals_close(symbolize.signal_fd);
	return status;
}

int main(int argc, char **argv)
{
	static const struct rp_tool_command command = {
		.name = "symbolize",
		.arguments = "FILE",
		.options = RP_SYMBOLIZE_OPTIONS,
		.operands_min = 1,
		.operands_max = 1,
		.is_binary = true,
		.run = run_options,
	};

	return rp_options_run(&command, argc, argv);
}
