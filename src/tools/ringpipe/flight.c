/* SPDX-License-Identifier: MIT */
/*
 * ringpipe flight start, flight stop: controls a flight recorder in another process, by ringpipe's
 * own commands. Start is 0x52/0x06: u32 1 for rings in files or 2 for coarse times, then the
 * payload of CollectTracing4. 0x52/0x0a has a path and a quota before that payload; 0x52/0x07 has
 * no such prefix. The reply to each is u64 session id.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "ipc/command_ids.h"
#include "ipc/provider_list.h"
#include "tools/cli/display_text.h"
#include "tools/client/exchange.h"
#include "tools/ringpipe/flight_window.h"
#include "tools/trace/output.h"
#include "tools/client/recording.h"
#include "tools/cli/signals.h"
#include "tools/cli/tool.h"

/* Stopping waits for a snapshot that is being sent to a slow reader. */
#define REPLY_TIMEOUT_MS 30000
#define TRIAL_MB 8u		/* the least that a process accepts */
#define BUFFER_MB_MAX (1u << 20)

/* Makes the path absolute, since the process may have another working directory. */
static int put_output(const struct rp_tool_options *options, const char *output,
		      struct rp_message_buffer *request)
{
	char *here = *output == '/' ? NULL : getcwd(NULL, 0), *path;

	if (asprintf(&path, "%s%s%s", here ? here : "", here ? "/" : "", output) < 0)
		path = NULL;
	free(here);
	if (!path) {
		rp_tool_error("out of memory");
		return -ENOMEM;
	}
	rp_message_put_string(request, path);
	rp_message_put_u64(request, (uint64_t)options->roll_mb << 20);
	free(path);
	return 0;
}

struct plan {
	const struct rp_tool_options *options;
	bool stops;
	struct rp_session_provider *providers;
	size_t provider_count;
	char *output;			/* of --roll, or NULL */
	uint32_t buffer_mb;		/* 0: the process's default */
	uint64_t window_ms;		/* of --last: the time that the recorder must hold */
};

static int build_start(const struct plan *plan, struct rp_message_buffer *request)
{
	const struct rp_tool_options *options = plan->options;
	const bool stacks = options->given & RP_OPTION_STACKS;

	rp_message_begin(request, RP_MESSAGE_RINGPIPE,
			 options->roll_mb ? RP_OWN_ROLL : RP_OWN_FLIGHT);
	if (!options->roll_mb) {
		rp_message_put_u32(request, options->given & RP_OPTION_RECOVER ? 1 :
				options->given & RP_OPTION_COARSE ? 2 : 0);
	} else if (put_output(options, plan->output, request)) {
		return -ENOMEM;
	}
	rp_message_put_u32(request, plan->buffer_mb);
	rp_message_put_u32(request, options->nettrace == 6 ? RP_FORMAT_NETTRACE_V6 :
			   RP_FORMAT_NETTRACE_V4);
	rp_message_put_u64(request, stacks);
	rp_message_put_u8(request, stacks);
	rp_message_put_providers(request, plan->providers, plan->provider_count);
	if (rp_message_end(request) == 0)
		return 0;
	rp_tool_error("the provider list is too long for one request (64 KB)");
	return -E2BIG;
}

static void print_window(const struct plan *plan)
{
	char text[RP_TEXT_MAX];

	printf("In %" PRIu32 " MB, it holds the last %s at the present rate.\n", plan->buffer_mb,
	       rp_text_duration(plan->window_ms * 1000000, text));
}

static void emit(const struct rp_target *target, uint64_t id, const struct plan *plan)
{
	if (plan->stops)
		printf("Process %d (%s) stopped its flight recorder, session %" PRIu64 ".\n",
		       target->pid, target->name, id);
	else if (plan->options->roll_mb)
		printf("Process %d (%s) writes files named after %s, session %" PRIu64 "\n",
		       target->pid, target->name, plan->output, id);
	else
		printf("Process %d (%s) runs a flight recorder, session %" PRIu64
		       "; see ringpipe flight snapshot "
		       "-p %d\n", target->pid, target->name, id, target->pid);
	if (plan->window_ms)
		print_window(plan);
}

/* Return: 0, with the session's id; -errno, after an error line. */
static int ask_quietly(const struct rp_target *target, const struct rp_message_buffer *request,
		       const char *what, uint64_t *ret_id)
{
	struct rp_cursor cursor;
	struct rp_exchange exchange;
	int ret = rp_exchange_begin(&exchange, target, request);

	if (!ret)
		ret = rp_exchange_run(&exchange, REPLY_TIMEOUT_MS);
	if (ret) {
		rp_exchange_explain(&exchange, what, ret);
	} else {
		cursor = rp_exchange_payload(&exchange);
		*ret_id = rp_cursor_get_u64(&cursor);
	}
	rp_exchange_end(&exchange);
	return ret;
}

static int ask(const struct rp_target *target, const struct rp_message_buffer *request,
	       const struct plan *plan)
{
	const rp_option_set given = plan->options->given;
	const char *what = plan->stops ? "stop the flight recorder of" :
			   given & RP_OPTION_COARSE ? "start a flight recorder with --coarse in" :
			   "start a flight recorder in";
	uint64_t id;

	if (ask_quietly(target, request, what, &id) != 0)
		return RP_EXIT_FAILURE;
	emit(target, id, plan);
	return RP_EXIT_OK;
}

/* Reports options that exclude each other. */
static int check_usage(const struct rp_tool_options *options)
{
	if (!(options->given & RP_OPTION_ROLL) != !(options->given & RP_OPTION_OUTPUT)) {
		rp_tool_error("flight start: --roll requires -o, and -o requires --roll");
		return -EINVAL;
	}
	if ((options->given & RP_OPTION_ROLL) && (options->given & RP_OPTION_RECOVER)) {
		rp_tool_error("flight start: --roll cannot be used with --recover");
		return -EINVAL;
	}
	if ((options->given & RP_OPTION_LAST) &&
	    (options->given & (RP_OPTION_ROLL | RP_OPTION_BUFFER))) {
		rp_tool_error("flight start: --last cannot be used with --roll or --buffer");
		return -EINVAL;
	}
	if ((options->given & RP_OPTION_COARSE) &&
	    (options->given & (RP_OPTION_ROLL | RP_OPTION_RECOVER))) {
		rp_tool_error("flight start: --coarse cannot be used with --roll or --recover");
		return -EINVAL;
	}
	return 0;
}

static void build_stop(struct rp_message_buffer *request)
{
	rp_message_begin(request, RP_MESSAGE_RINGPIPE, RP_OWN_STOP_FLIGHT);
	rp_message_end(request);
}

/*
 * Return: an exit status; with RP_EXIT_OK, `ret_goes_on` is whether the trial stays as the
 * recorder.
 */
static int end_trial(const struct rp_flight_trial *trial, int64_t needed, bool *ret_goes_on)
{
	static struct rp_message_buffer request;
	uint64_t id;

	*ret_goes_on = needed == trial->buffer_mb;
	if (*ret_goes_on)
		return RP_EXIT_OK;
	build_stop(&request);
	if (ask_quietly(trial->target, &request, "stop the flight recorder of", &id) != 0)
		return RP_EXIT_FAILURE;
	if (needed == -EINTR) {
		rp_tool_error("cancelled; no flight recorder runs");
		return RP_EXIT_GAVE_UP;
	}
	if (needed > BUFFER_MB_MAX)
		rp_tool_error("%" PRId64 " MB are needed, more than %u: give a shorter --last",
			      needed, BUFFER_MB_MAX);
	return needed < 0 || needed > BUFFER_MB_MAX ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

/*
 * Finds the buffer for --last by a trial with a small buffer. Signals are blocked before the trial
 * starts, so that a signal cannot end this command and leave the trial running. Return: as
 * end_trial().
 */
static int size_buffer(const struct rp_target *target, struct plan *plan, bool *ret_goes_on)
{
	static struct rp_message_buffer request;
	struct rp_flight_trial trial = {
		.target = target, .buffer_mb = TRIAL_MB, .last_ms = plan->options->last_ms,
		.live = isatty(STDERR_FILENO), .signal_fd = rp_signals_open(),
	};
	int status = RP_EXIT_FAILURE;
	uint64_t window_ms = 0;
	int64_t needed = 0;

	if (trial.signal_fd < 0) {
		rp_tool_error("cannot begin: %s", strerror(-trial.signal_fd));
		return status;
	}
	plan->buffer_mb = TRIAL_MB;
	if (build_start(plan, &request) != 0) {
		status = RP_EXIT_USAGE;
	} else if (ask_quietly(target, &request, "record", &trial.session) == 0) {
		needed = rp_flight_measure(&trial, &window_ms);
		status = end_trial(&trial, needed, ret_goes_on);
	}
	rp_signals_close(trial.signal_fd);
	if (status != RP_EXIT_OK)
		return status;
	plan->buffer_mb = (uint32_t)needed;
	plan->window_ms = window_ms * plan->buffer_mb / TRIAL_MB;
	if (*ret_goes_on)
		emit(target, trial.session, plan);
	return RP_EXIT_OK;
}

static int start(const struct rp_target *target, struct plan *plan)
{
	const struct rp_tool_options *options = plan->options;
	static struct rp_message_buffer request;
	int status = RP_EXIT_USAGE;
	bool goes_on = false;

	if (options->given & RP_OPTION_LAST) {
		status = size_buffer(target, plan, &goes_on);
		if (status != RP_EXIT_OK || goes_on)
			return status;
		status = RP_EXIT_USAGE;
	}
	plan->output = options->output ? rp_text_expand_pid(options->output, target->pid) : NULL;
	if (options->output && !plan->output) {
		rp_tool_error("out of memory");
		return RP_EXIT_FAILURE;
	}
	if (build_start(plan, &request) == 0)
		status = ask(target, &request, plan);
	free(plan->output);
	return status;
}

int rp_command_flight_start(const struct rp_tool_options *options)
{
	struct plan plan = { .options = options, .buffer_mb = options->buffer_mb };
	int status = RP_EXIT_FAILURE;
	struct rp_target target;

	if (check_usage(options) || rp_recording_providers(options, "flight start", &plan.providers,
							   &plan.provider_count))
		return RP_EXIT_USAGE;
	if (rp_target_find(options->pid, options->name, &target) == 0) {
		if (rp_recording_check_providers(options, &target, plan.providers,
						 plan.provider_count) == 0)
			status = start(&target, &plan);
		rp_target_fini(&target);
	}
	free(plan.providers);
	return status;
}

int rp_command_flight_stop(const struct rp_tool_options *options)
{
	const struct plan plan = { .options = options, .stops = true };
	static struct rp_message_buffer request;
	struct rp_target target;
	int status;

	if (rp_target_find(options->pid, options->name, &target) != 0)
		return RP_EXIT_FAILURE;
	build_stop(&request);
	status = ask(&target, &request, &plan);
	rp_target_fini(&target);
	return status;
}
