/* SPDX-License-Identifier: MIT */
/*
 * ringpipe-bpf: `ringpipe bpf` executes it with the same arguments. It is a separate program, so
 * that `ringpipe` needs no libbpf, and only this file needs capabilities.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/ringpipe-bpf/program.h"
#include "tools/ringpipe-bpf/batch_session.h"
#include "tools/ringpipe-bpf/show.h"
#include "tools/cli/bpf_options.h"
#include "tools/client/events.h"
#include "tools/client/providers.h"
#include "tools/cli/signals.h"
#include "tools/cli/tool.h"
#include "tools/trace/event_names.h"
#include "tools/trace/output.h"

/* The command gives up after a stop request and this time without a frame. */
#define STOP_TIMEOUT_MS 20000

struct bpf_run {
	const struct rp_tool_options *options;
	char *provider;			/* of --event; NULL: every event */
	const char *event;
	struct rp_session_provider only;	/* the entry used without --providers */
	struct rp_session_provider *providers;
	size_t provider_count;
	bool narrowed;			/* the session has only `only`, with the filter */
	struct rp_event_filter filter;
	uint32_t *ids;			/* of the filter */
	enum rp_bpf_mode mode;
	struct rp_bpf_session session;
	struct rp_bpf_program program;
	struct ring_buffer *ring;
	struct rp_bpf_printer printer;	/* of forwarded events */
	struct rp_output output;	/* standard output */
	uint8_t wanted[RP_BPF_EVENTS];
	uint32_t path_count;
	bool found;			/* a definition matched --event */
	int signal_fd;
	struct rp_stop_signal last_signal;
	int64_t end_ms;			/* end of the duration; INT64_MAX: none */
	int64_t refresh_ms;		/* when to print the next table; INT64_MAX: never */
	int64_t heard_ms;
	bool gave_up;			/* a second signal came during a write */
	int error;			/* reported, unless it is of the output */
};

static bool is_wanted(const struct bpf_run *run, const struct rp_bpf_definition *definition)
{
	return !run->event || (strcmp(definition->provider, run->provider) == 0 &&
			       strcmp(definition->name, run->event) == 0);
}

static int explain_field(const struct bpf_run *run, const struct rp_bpf_definition *definition,
			 int error)
{
	const char *field = run->options->field;

	if (error == -ENOENT) {
		rp_tool_error("%s:%s has no field '%s'; it has:", run->provider, run->event, field);
		for (uint32_t i = 0; i < definition->field_count; i++)
			rp_tool_error("    %s", definition->fields[i].name);
	} else if (error == -EOPNOTSUPP) {
		rp_tool_error("%s:%s: '%s' has a type that BPF cannot %s", run->provider,
			      run->event, field,
			      run->mode == RP_BPF_HISTOGRAM ? "make a histogram of" : "count by");
	} else {
		rp_tool_error("%s:%s: '%s' is too far into the payload for BPF", run->provider,
			      run->event, field);
	}
	return error;
}

static bool is_number(uint32_t kind)
{
	return kind != RP_BPF_VALUE_STRING && kind != RP_BPF_VALUE_BYTES;
}

/* Passes the BPF program the path to the field in events of this definition. */
static int add_path(struct bpf_run *run, const struct rp_bpf_definition *definition)
{
	struct batch_bpf__bss *bss = run->program.skeleton->bss;
	struct rp_bpf_path path;
	int ret = rp_bpf_path_find(definition, run->options->field, &path);

	if (ret == 0 && run->mode == RP_BPF_HISTOGRAM && !is_number(path.value_kind))
		ret = -EOPNOTSUPP;
	if (ret != 0)
		return explain_field(run, definition, ret);
	if (run->path_count == RP_BPF_PATHS) {
		rp_tool_error("more than %u definitions of %s:%s", RP_BPF_PATHS, run->provider,
			      run->event);
		return -E2BIG;
	}
	bss->paths[run->path_count] = path;
	bss->wanted[definition->number] = (uint8_t)++run->path_count;
	return 0;
}

static int define(const struct rp_bpf_definition *definition, void *data)
{
	struct bpf_run *run = data;

	if (!is_wanted(run, definition))
		return 0;
	run->found = true;
	if (definition->number >= RP_BPF_EVENTS) {
		if (run->mode == RP_BPF_COUNT)
			return 0;
		rp_tool_error("more than %u kinds of events; name fewer --providers",
			      RP_BPF_EVENTS);
		return -E2BIG;
	}
	run->wanted[definition->number] = 1;
	if (run->options->field)
		return add_path(run, definition);
	run->program.skeleton->bss->wanted[definition->number] = 1;
	return 0;
}

static int forwarded(void *context, void *bytes, size_t size)
{
	struct bpf_run *run = context;

	if (run->error == 0)
		run->error = rp_bpf_printer_print(&run->printer, &run->session, bytes, size);
	return run->error;
}

static struct rp_bpf_view view_of(const struct bpf_run *run)
{
	return (struct rp_bpf_view){
		.session = &run->session,
		.program = &run->program,
		.wanted = run->wanted,
		.mode = run->mode,
		.linear_step = run->options->step,
		.top = run->options->top,
	};
}

static int show(const struct bpf_run *run)
{
	const struct rp_bpf_view view = view_of(run);

	return rp_bpf_show(&view, run->options->format);
}

static void want_stop(struct bpf_run *run)
{
	run->end_ms = INT64_MAX;
	run->heard_ms = rp_now_ms();
	rp_bpf_session_stop(&run->session);
}

/* Return: false after a second signal, which ends the command immediately. */
static bool take_signals(struct bpf_run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (!rp_signals_is_request(&info, &run->last_signal))
			continue;
		if (run->session.stopping)
			return false;
		want_stop(run);
		run->output.is_stopping = true;
	}
	return true;
}

/* While a write waits for the reader of a full pipe. */
static bool ends_wait(void *data)
{
	struct bpf_run *run = data;

	run->gave_up |= !take_signals(run);
	return run->gave_up;
}

/* Let signals interrupt the writes of all that is printed. Return: 0; -errno, reported. */
static int open_output(struct bpf_run *run)
{
	FILE *stream;
	int ret = rp_output_open(&run->output, "-", false);

	if (ret)
		return ret;
	rp_output_make_interruptible(&run->output, run->signal_fd, ends_wait, run);
	stream = rp_output_open_stream(&run->output);
	if (!stream) {
		rp_tool_error("out of memory");
		return -ENOMEM;
	}
	stdout = stream;
	return 0;
}

/* Return: the exit status, after an error line if the output lacks something. */
static int end_output(const struct bpf_run *run, int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (run->gave_up)
		return RP_EXIT_GAVE_UP;
	if (run->output.is_cancelled)
		rp_tool_error("bpf: stopped before all events were printed");
	else
		rp_tool_error("cannot write standard output: %s",
			      strerror(run->output.error ? run->output.error : EIO));
	return status == RP_EXIT_OK ? RP_EXIT_FAILURE : status;
}

static int timeout_of(const struct bpf_run *run)
{
	int64_t next = run->end_ms < run->refresh_ms ? run->end_ms : run->refresh_ms;
	int64_t now = rp_now_ms();

	if (run->session.stopping && run->heard_ms + STOP_TIMEOUT_MS < next)
		next = run->heard_ms + STOP_TIMEOUT_MS;
	if (next == INT64_MAX)
		return -1;
	return next <= now ? 0 : next - now > 3600000 ? 3600000 : (int)(next - now);
}

static void take_time(struct bpf_run *run)
{
	int64_t now = rp_now_ms();

	if (now >= run->end_ms)
		want_stop(run);
	if (now >= run->refresh_ms) {
		show(run);
		puts("");
		fflush(stdout);
		run->refresh_ms = now + (int64_t)run->options->refresh_ms;
	}
}

/*
 * Reads the session to its end. Return: 0; -EINTR after a second signal; -errno, reported, unless
 * it is of the output.
 */
static int follow(struct bpf_run *run)
{
	for (;;) {
		struct pollfd waits[] = {
			{ .fd = run->session.exchange.fd, .events = POLLIN },
			{ .fd = run->signal_fd, .events = POLLIN },
			rp_bpf_session_poll_stop(&run->session),
			{ .fd = run->ring ? ring_buffer__epoll_fd(run->ring) : -1,
			  .events = POLLIN },
		};
		bool is_late;
		int ret = 1;

		if (poll(waits, 4, timeout_of(run)) < 0 && errno != EINTR)
			return -errno;
		if (waits[1].revents && !take_signals(run))
			return -EINTR;
		rp_bpf_session_step_stop(&run->session);
		if (waits[0].revents) {
			run->heard_ms = rp_now_ms();
			ret = rp_bpf_session_read(&run->session, define, run);
		}
		/* Not after the events were printed, because a slow reader of them takes time. */
		is_late = run->session.stopping && rp_now_ms() >= run->heard_ms + STOP_TIMEOUT_MS;
		/*
		 * Definitions first: the process forwards no event before its definition was
		 * answered.
		 */
		if (run->ring) {
			ring_buffer__consume(run->ring);
			if (fflush(stdout) && !run->error)
				run->error = -EIO;
		}
		if (ret != 1 || run->error)
			return run->error ? run->error : ret;
		if (is_late) {
			rp_tool_error("process %d does not end the session",
				      run->session.target.pid);
			return -ETIMEDOUT;
		}
		take_time(run);
	}
}

static int finish(struct bpf_run *run, int followed)
{
	const struct rp_bpf_view view = view_of(run);
	int status = RP_EXIT_FAILURE;

	if (followed == -EINTR)
		return RP_EXIT_GAVE_UP;
	if (followed != 0)
		return RP_EXIT_FAILURE;
	if (run->event && !run->found) {
		rp_tool_error("the process wrote no event %s:%s; `ringpipe bpf count` shows the "
			      "events that it writes", run->provider, run->event);
		return RP_EXIT_FAILURE;
	}
	status = show(run);
	fflush(stdout);
	if (run->options->format != RP_FORMAT_JSON)
		rp_bpf_show_stats(&view);
	if (!run->session.ended) {
		rp_tool_error("process %d ended; these are the events up to then",
			      run->session.target.pid);
		return RP_EXIT_FAILURE;
	}
	return status;
}

/* The entry of the list that applies to the event's provider: the exact name, or "*". */
static const struct rp_session_provider *entry_of_event(const struct bpf_run *run)
{
	const struct rp_session_provider *all = NULL;

	for (size_t i = 0; i < run->provider_count; i++) {
		if (strcmp(run->providers[i].name, run->provider) == 0)
			return &run->providers[i];
		if (!all && strcmp(run->providers[i].name, "*") == 0)
			all = &run->providers[i];
	}
	return all;
}

/* Finds the ids of the event. Return: 0; -ENOENT, without an error line; -ENOMEM. */
static int find_ids(struct bpf_run *run, const struct rp_event_rows *rows)
{
	run->ids = calloc(rows->count + 1, sizeof(*run->ids));
	if (!run->ids)
		return -ENOMEM;
	for (size_t i = 0; i < rows->count; i++) {
		if (strcmp(rows->rows[i].provider, run->provider) == 0 &&
		    strcmp(rows->rows[i].name, run->event) == 0)
			run->ids[run->filter.id_count++] = rows->rows[i].id;
	}
	return run->filter.id_count ? 0 : -ENOENT;
}

static void explain_event(const struct bpf_run *run, const struct rp_event_rows *rows,
			  const struct rp_target *target)
{
	rp_tool_error("process %d has no event %s; its provider has:", target->pid,
		      run->options->event);
	for (size_t i = 0; i < rows->count; i++) {
		const struct rp_event_row *row = &rows->rows[i];

		if (strcmp(row->provider, run->provider) == 0 &&
		    !rp_event_is_internal(row->provider, row->name))
			rp_tool_error("    %s", row->name);
	}
}

/*
 * Limits the session to the event of --event. An older library does not report its events: the
 * session then contains the whole provider, and the BPF program ignores the other events.
 */
static int narrow(struct bpf_run *run, const struct rp_target *target)
{
	const struct rp_session_provider *entry = entry_of_event(run);
	struct rp_event_rows rows;
	int ret;

	if (!entry) {
		rp_tool_error("bpf: --providers leaves out the provider of --event, '%s'",
			      run->provider);
		return -ENOENT;
	}
	ret = rp_event_rows_get(target, &rows);
	if (ret)
		return ret == -EOPNOTSUPP ? 0 : ret;
	ret = find_ids(run, &rows);
	if (ret == -ENOENT && run->options->given & RP_OPTION_MISSING)
		ret = 0;
	else if (ret == -ENOENT)
		explain_event(run, &rows, target);
	else if (ret)
		rp_tool_error("out of memory");
	rp_event_rows_fini(&rows);
	if (ret || run->filter.id_count == 0)
		return ret;
	run->filter.size = sizeof(run->filter);
	run->filter.enable = 1;
	run->filter.ids = run->ids;
	if (entry != &run->only)
		run->only = *entry;
	run->only.name = run->provider;
	run->only.filter = &run->filter;
	run->narrowed = true;
	return 0;
}

static const char *provider_name(size_t i, void *data)
{
	return ((const struct rp_session_provider *)data)[i].name;
}

/* Checks that the process has the requested providers, and limits the session to the event. */
static int prepare(struct bpf_run *run, const struct rp_target *target)
{
	int ret = run->options->given & RP_OPTION_MISSING ? 0 :
		  rp_providers_check(target, provider_name, run->provider_count, run->providers);

	return ret == 0 && run->event ? narrow(run, target) : ret;
}

static int run_session(struct bpf_run *run, const struct rp_target *target)
{
	const struct rp_session_provider *providers = run->narrowed ? &run->only : run->providers;
	const size_t count = run->narrowed ? 1 : run->provider_count;
	int ret = rp_bpf_session_begin(&run->session, target, providers, count,
				       run->options->buffer_mb);

	if (ret == 0)
		ret = rp_bpf_program_attach(&run->program, target->pid, run->session.probe,
					    run->session.id);
	if (ret != 0)
		return RP_EXIT_FAILURE;
	rp_tool_say(stderr, "Attached to process %d (%s); Ctrl-C stops", target->pid, target->name);
	run->end_ms = run->options->duration_ms ?
		      rp_now_ms() + (int64_t)run->options->duration_ms : INT64_MAX;
	run->refresh_ms = run->options->given & RP_OPTION_REFRESH ?
			  rp_now_ms() + (int64_t)run->options->refresh_ms : INT64_MAX;
	return finish(run, follow(run));
}

static int run_program(struct bpf_run *run)
{
	struct rp_target target;
	int status = RP_EXIT_FAILURE;

	if (rp_target_find(run->options->pid, run->options->name, &target))
		return RP_EXIT_FAILURE;
	run->signal_fd = rp_signals_open();
	if (open_output(run) != 0 || prepare(run, &target) != 0 ||
	    rp_bpf_program_load(run->mode, run->options->step, &run->program) != 0) {
		rp_target_fini(&target);
		return RP_EXIT_FAILURE;
	}
	if (run->mode == RP_BPF_FORWARD) {
		rp_bpf_printer_init(&run->printer, run->options->format);
		run->ring = ring_buffer__new(bpf_map__fd(run->program.skeleton->maps.forwarded),
					     forwarded, run, NULL);
	}
	if (run->mode == RP_BPF_FORWARD && !run->ring) {
		rp_tool_error("cannot map the BPF ring buffer: %s", strerror(errno));
		rp_target_fini(&target);
	} else {
		status = run_session(run, &target);
		rp_bpf_session_fini(&run->session);
	}
	rp_bpf_printer_fini(&run->printer);
	ring_buffer__free(run->ring);
	rp_bpf_program_fini(&run->program);
	return status;
}

/* Parses "PROVIDER:EVENT". A provider's name may contain a colon; an event's name does not. */
static int take_event(struct bpf_run *run)
{
	const char *colon = run->options->event ? strrchr(run->options->event, ':') : NULL;

	if (!run->options->event)
		return 0;
	if (!colon || colon == run->options->event || !colon[1]) {
		rp_tool_error("bpf: --event requires PROVIDER:EVENT, not '%s'",
			      run->options->event);
		return -EINVAL;
	}
	if (colon - run->options->event > RP_NAME_MAX || strlen(colon + 1) > RP_NAME_MAX) {
		rp_tool_error("bpf: --event: a name has up to %u bytes", RP_NAME_MAX);
		return -EINVAL;
	}
	run->provider = strndup(run->options->event, (size_t)(colon - run->options->event));
	run->event = colon + 1;
	return run->provider ? 0 : -ENOMEM;
}

static int take_mode(struct bpf_run *run, enum rp_bpf_mode mode)
{
	const struct rp_tool_options *options = run->options;

	run->mode = mode == RP_BPF_COUNT && options->field ? RP_BPF_COUNT_FIELD : mode;
	if (run->mode == RP_BPF_HISTOGRAM && (!options->event || !options->field)) {
		rp_tool_error("bpf: histogram requires --event and --field");
		return -EINVAL;
	}
	if (options->field && !options->event) {
		rp_tool_error("bpf: --field requires --event");
		return -EINVAL;
	}
	return 0;
}

static int take_providers(struct bpf_run *run)
{
	const char *text = run->options->providers ? run->options->providers : "*";
	size_t at = 0;
	int ret;

	if (!run->options->providers && run->provider) {
		run->only = (struct rp_session_provider){ .size = sizeof(run->only),
							  .name = run->provider,
							  .keywords = UINT64_MAX,
							  .level = RP_LEVEL_VERBOSE };
		run->providers = &run->only;
		run->provider_count = 1;
		return 0;
	}
	ret = rp_providers_parse(text, &run->providers, &run->provider_count, &at);
	if (ret)
		rp_options_explain_providers("bpf", text, at);
	return ret;
}

#define PROCESS "(PID | -p PID | -n NAME)"

int main(int argc, char **argv)
{
	static const struct rp_tool_command commands[] = {
		{ .name = "bpf count", .arguments = PROCESS, .options = RP_BPF_COUNT_OPTIONS },
		{ .name = "bpf histogram", .arguments = PROCESS,
		  .options = RP_BPF_HISTOGRAM_OPTIONS },
		{ .name = "bpf print", .arguments = PROCESS, .options = RP_BPF_PRINT_OPTIONS },
	};
	static const enum rp_bpf_mode modes[] = { RP_BPF_COUNT, RP_BPF_HISTOGRAM, RP_BPF_FORWARD };
	struct rp_tool_options options;
	static struct bpf_run run = { .signal_fd = -1 };
	int status = RP_EXIT_USAGE;
	size_t at = 0;

	/* The command has checked its name. */
	while (at < 2 && argc > 1 && strcmp(commands[at].name + strlen("bpf "), argv[1]) != 0)
		at++;
	if (argc < 2 || rp_options_parse(&commands[at], argc - 2, argv + 2, &options))
		return RP_EXIT_USAGE;
	if (options.given & RP_OPTION_HELP) {
		rp_options_print_usage(&commands[at]);
		return RP_EXIT_OK;
	}
	run.options = &options;
	if (take_mode(&run, modes[at]) == 0 && take_event(&run) == 0 && take_providers(&run) == 0)
		status = run_program(&run);
	if (run.providers != &run.only)
		free(run.providers);
	free(run.provider);
	free(run.ids);
	return end_output(&run, status);
}
