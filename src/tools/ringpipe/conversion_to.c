/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/conversion_to.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/cli/display_text.h"
#include "tools/cli/progress.h"
#include "tools/cli/signals.h"
#include "tools/formats/format_folder.h"
#include "tools/formats/format_writer.h"
#include "tools/trace/event_names.h"
#include "tools/trace/input.h"
#include "tools/trace/json_event.h"
#include "tools/trace/time_range.h"
#include "tools/trace/trace_symbols.h"
#include "tools/trace/trace_output.h"

#define EVENTS_PER_TICK 4096u

struct conversion_to {
	const struct rp_tool_options *options;
	const struct rp_format_writer *format;
	struct rp_format_source source;
	struct rp_input input;
	struct rp_trace_output output;
	struct rp_format_out out;
	struct rp_progress progress;
	struct rp_json_decoder json;
	struct rp_processes processes;
	const char *path;		/* of the output, for messages */
	uint64_t events;
};

/* Return: 0; -ECANCELED: a signal came. */
static int tick(struct conversion_to *to)
{
	struct pollfd wait = { .fd = to->input.signal_fd, .events = POLLIN };

	rp_progress_show(&to->progress, to->input.taken, to->input.bytes);
	return poll(&wait, 1, 0) > 0 && wait.revents ? -ECANCELED : 0;
}

static bool is_needed(const struct conversion_to *to, const struct rp_reader_event *event)
{
	return !to->source.where || rp_event_is_own(event->type->provider) ||
	       rp_expression_matches(to->source.where, event, event->process);
}

static int write_event(struct conversion_to *to, void *state, const struct rp_reader_event *event)
{
	const struct rp_reader_event *shown = rp_json_decode(&to->json, event);

	return shown ? to->format->event(state, shown) : -ENOMEM;
}

/* Return: 0 at the end of the trace; as rp_reader_next(); -ECANCELED; -ENOMEM. */
static int write_events(struct conversion_to *to, void *state)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	int ret = 0;

	while (!to->out.error && (ret = rp_reader_next(to->source.reader, &event)) == 1) {
		ret = rp_processes_follow_id(&to->processes, &event, &event.process);
		if (ret == 0 && is_needed(to, &event))
			ret = write_event(to, state, &event);
		if (ret == 0 && ++to->events % EVENTS_PER_TICK == 0)
			ret = tick(to);
		if (ret < 0)
			return ret;
	}
	return to->out.error ? 0 : ret;
}

/* Return: as write_events(). A failure to write is in to->out.error. */
static int write_format(struct conversion_to *to)
{
	void *state;
	int ret = to->format->open(&to->source, &to->out, &state), end;

	if (ret < 0)
		return ret;
	ret = write_events(to, state);
	/* The output is complete up to the place where the events end. */
	end = to->format->end(state);
	rp_out_flush(&to->out);
	to->format->close(state);
	return ret ? ret : end;
}

/* Return: the exit status. */
static int explain(const struct conversion_to *to, int ret, int output_error)
{
	const char *path = to->path;
	char buffer[512];
	const char *said;

	if (ret == -EOPNOTSUPP)
		return RP_EXIT_FAILURE;
	if (output_error == -ECANCELED) {
		rp_tool_error("stopped; %s lacks the end of the trace", path);
		return RP_EXIT_GAVE_UP;
	}
	if (output_error) {
		rp_tool_error("cannot write %s: %s", path, strerror(-output_error));
		return RP_EXIT_FAILURE;
	}
	if (ret == -ECANCELED) {
		rp_tool_error("stopped; %s has the events up to then", path);
		return RP_EXIT_GAVE_UP;
	}
	said = rp_input_explain(to->source.reader, ret, buffer, sizeof(buffer));
	if (said)
		rp_tool_error("%s: %s; %s has %s", to->input.path, said, path,
			      rp_input_given(to->source.reader));
	return said ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

static void print_result(const struct conversion_to *to)
{
	char events[RP_TEXT_MAX], bytes[RP_TEXT_MAX];

	rp_tool_say(stderr, "%s: %s, %s in the format %s", to->path,
		    rp_text_counted(to->events, "event", events),
		    rp_text_bytes(to->out.written, bytes),
		    to->format->name);
}

/* Return: what write_format() returned; failures to write are in to->out.error. */
static int convert(struct conversion_to *to, struct rp_output *output)
{
	int ret = 0, output_error = output ? rp_output_begin(output) : 0;

	rp_progress_begin(&to->progress, to->options->given & RP_OPTION_QUIET);
	/* At the limit of the file size, write(2) then fails, and this process survives. */
	signal(SIGXFSZ, SIG_IGN);
	if (!output_error)
		output_error = rp_out_init(&to->out, output);
	to->out.error = output_error;
	if (!output_error)
		ret = write_format(to);
	rp_progress_end(&to->progress);
	return ret;
}

/* Return: the exit status. */
static int report(struct conversion_to *to, int ret, int output_error)
{
	const int status = explain(to, ret, output_error);

	if (!output_error && !(to->options->given & RP_OPTION_QUIET))
		print_result(to);
	rp_out_fini(&to->out);
	return status;
}

static int convert_to_file(struct conversion_to *to, const char *path)
{
	int status = RP_EXIT_FAILURE, ret, output_error;

	if (rp_trace_output_open(&to->output, path, to->options->given & RP_OPTION_FORCE) == 0) {
		if (rp_trace_output_is_input(&to->output, to->input.fd)) {
			rp_trace_output_close(&to->output);
		} else {
			to->path = to->output.output.path;
			rp_trace_output_make_interruptible(&to->output, to->input.signal_fd);
			ret = convert(to, &to->output.output);
			output_error = to->out.error;
			if (!output_error)
				output_error = rp_trace_output_close(&to->output);
			if (output_error)
				rp_trace_output_discard(&to->output);
			status = report(to, ret, output_error);
		}
	}
	rp_trace_output_fini(&to->output);
	return status;
}

static int convert_to_folder(struct conversion_to *to, const char *path)
{
	int ret, output_error, reserve;

	if (!strcmp(path, "-")) {
		rp_tool_error("convert: --to %s writes a directory; name it by -o",
			      to->format->name);
		return RP_EXIT_USAGE;
	}
	if (rp_format_folder_prepare(path, to->options->given & RP_OPTION_FORCE) < 0)
		return RP_EXIT_FAILURE;
	to->path = to->source.folder = path;
	/* A trace is private, as in a file. */
	umask(077);
	/* If the format takes all other descriptors, one is left to remove the folder. */
	reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ret = convert(to, NULL);
	if (reserve >= 0)
		close(reserve);
	output_error = to->out.error;
	if (output_error)
		rp_format_folder_remove(path);
	return report(to, ret, output_error);
}

static int convert_into(struct conversion_to *to)
{
	const struct rp_tool_options *options = to->options;
	int status = RP_EXIT_FAILURE;
	char *path;

	to->source.info.size = sizeof(to->source.info);
	rp_reader_get_info(to->source.reader, &to->source.info);
	to->source.file = to->input.bytes ? options->operands[0] : NULL;
	path = rp_text_expand_pid(options->output, (pid_t)to->source.info.process_id);
	if (!path)
		rp_tool_error("out of memory");
	else
		status = to->format->is_folder ? convert_to_folder(to, path) :
						 convert_to_file(to, path);
	free(path);
	return status;
}

int rp_convert_to(const struct rp_tool_options *options)
{
	struct conversion_to to = { .options = options, .format = rp_format_find(options->to) };
	struct rp_trace_query query;
	int signal_fd, status, ret;

	if (!to.format) {
		rp_tool_error("convert: --to %s is unknown; the formats are " RP_FORMAT_NAMES,
			      options->to);
		return RP_EXIT_USAGE;
	}
	if (options->given & (RP_OPTION_VERSION | RP_OPTION_COMPACT)) {
		rp_tool_error("convert: --format and --compact are for nettrace, not for --to");
		return RP_EXIT_USAGE;
	}
	if (options->where &&
	    rp_expression_take("convert: --where", options->where, &to.source.where))
		return RP_EXIT_USAGE;
	signal_fd = rp_signals_open();
	if (rp_input_open(&to.input, options->operands[0], signal_fd, &to.source.reader)) {
		rp_expression_destroy(to.source.where);
		return RP_EXIT_FAILURE;
	}
	ret = rp_time_range_resolve("convert", options, to.source.reader, &to.source.range);
	if (ret == 0) {
		query = rp_time_range_query(&to.source.range);
		ret = rp_time_range_select("convert", &query, options->operands[0], &to.input,
					   to.source.reader);
	}
	status = ret == -EINVAL ? RP_EXIT_USAGE : ret ? RP_EXIT_FAILURE : convert_into(&to);
	rp_reader_close(to.source.reader);
	rp_input_close(&to.input);
	rp_signals_close(signal_fd);
	rp_expression_destroy(to.source.where);
	rp_json_decoder_fini(&to.json);
	rp_processes_fini(&to.processes);
	return status;
}
