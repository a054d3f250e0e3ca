/* SPDX-License-Identifier: MIT */
/*
 * ringpipe-bpf: what `ringpipe bpf` becomes, with the same arguments. A program of its own, so that
 * `ringpipe` needs no libbpf, and capabilities can be given to this file alone.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "bpf/program.h"
#include "bpf/session.h"
#include "bpf/show.h"
#include "tool/bpf_options.h"
#include "tool/signals.h"
#include "tool/tool.h"

/* With a stop asked for, this long without a word means that nothing will come. */
#define STOP_TIMEOUT_MS 20000

struct run {
	const struct rp_tool_options *options;
	char *provider;			/* of the event asked for; NULL: every event */
	const char *event;
	struct rp_session_provider only;	/* when it is not said by --providers */
	struct rp_session_provider *providers;
	size_t provider_count;
	enum rp_bpf_mode mode;
	struct rp_bpf_session session;
	struct rp_bpf_program program;
	struct ring_buffer *ring;
	uint8_t wanted[RP_BPF_EVENTS];
	uint32_t path_count;
	bool found;			/* a definition was what is asked for */
	int signal_fd;
	int64_t end_ms;			/* when the duration is over; INT64_MAX: never */
	int64_t refresh_ms;		/* when the next table is due; INT64_MAX: none */
	int64_t heard_ms;
	int error;			/* told */
};

static bool is_wanted(const struct run *run, const struct rp_bpf_definition *definition)
{
	return !run->event || (strcmp(definition->provider, run->provider) == 0 &&
			       strcmp(definition->name, run->event) == 0);
}

static int explain_field(const struct run *run, const struct rp_bpf_definition *definition,
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
		rp_tool_error("%s:%s: '%s' is too far behind for BPF", run->provider, run->event,
			      field);
	}
	return error;
}

static bool is_number(uint32_t kind)
{
	return kind != RP_BPF_VALUE_STRING && kind != RP_BPF_VALUE_BYTES;
}

/* Tells the program how to find the field in events of this definition. */
static int add_path(struct run *run, const struct rp_bpf_definition *definition)
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
	struct run *run = data;

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
	struct run *run = context;

	if (run->error == 0)
		run->error = rp_bpf_show_event(&run->session, bytes, size,
					       run->options->given & RP_OPTION_JSON);
	return run->error;
}

static struct rp_bpf_view view_of(const struct run *run)
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

static int show(const struct run *run)
{
	const struct rp_bpf_view view = view_of(run);

	return run->options->given & RP_OPTION_JSON ? rp_bpf_show_json(&view) :
						      rp_bpf_show_text(&view);
}

static void want_stop(struct run *run)
{
	run->end_ms = INT64_MAX;
	run->heard_ms = rp_now_ms();
	rp_bpf_session_stop(&run->session);
}

/* Return: false: a second signal, which gives up. */
static bool take_signals(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (run->session.stopping)
			return false;
		want_stop(run);
	}
	return true;
}

static int timeout_of(const struct run *run)
{
	int64_t next = run->end_ms < run->refresh_ms ? run->end_ms : run->refresh_ms;
	int64_t now = rp_now_ms();

	if (run->session.stopping && run->heard_ms + STOP_TIMEOUT_MS < next)
		next = run->heard_ms + STOP_TIMEOUT_MS;
	if (next == INT64_MAX)
		return -1;
	return next <= now ? 0 : next - now > 3600000 ? 3600000 : (int)(next - now);
}

static void take_time(struct run *run)
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

/* Follows the session to its end. Return: 0; -EINTR: given up; -errno, told. */
static int follow(struct run *run)
{
	for (;;) {
		struct pollfd waits[] = {
			{ .fd = run->session.exchange.fd, .events = POLLIN },
			{ .fd = run->signal_fd, .events = POLLIN },
			rp_bpf_session_poll_stop(&run->session),
			{ .fd = run->ring ? ring_buffer__epoll_fd(run->ring) : -1,
			  .events = POLLIN },
		};
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
		/* Definitions first: no event is forwarded before its own was answered. */
		if (run->ring)
			ring_buffer__consume(run->ring);
		if (ret != 1 || run->error)
			return run->error ? run->error : ret;
		if (run->session.stopping && rp_now_ms() >= run->heard_ms + STOP_TIMEOUT_MS) {
			rp_tool_error("process %d does not end the session",
				      run->session.target.pid);
			return -ETIMEDOUT;
		}
		take_time(run);
	}
}

static int finish(struct run *run, int followed)
{
	const struct rp_bpf_view view = view_of(run);
	int status = RP_EXIT_FAILURE;

	if (followed == -EINTR)
		return RP_EXIT_GAVE_UP;
	if (followed != 0)
		return RP_EXIT_FAILURE;
	if (run->event && !run->found) {
		rp_tool_error("no event %s:%s came: does the process have it? `ringpipe bpf count` "
			      "shows those that come", run->provider, run->event);
		return RP_EXIT_FAILURE;
	}
	status = run->mode == RP_BPF_FORWARD && !(run->options->given & RP_OPTION_JSON) ?
		 RP_EXIT_OK : show(run);
	fflush(stdout);
	if (!(run->options->given & RP_OPTION_JSON))
		rp_bpf_show_account(&view);
	if (!run->session.ended) {
		rp_tool_error("process %d went away; these are the events up to then",
			      run->session.target.pid);
		return RP_EXIT_FAILURE;
	}
	return status;
}

static int run_session(struct run *run, const struct rp_target *target)
{
	int ret = rp_bpf_session_begin(&run->session, target, run->providers, run->provider_count,
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

static int run_program(struct run *run)
{
	struct rp_target target;
	int status = RP_EXIT_FAILURE;

	if (rp_target_find(run->options->pid, run->options->name, &target))
		return RP_EXIT_FAILURE;
	run->signal_fd = rp_signals_open();
	if (rp_bpf_program_load(run->mode, run->options->step, &run->program) != 0) {
		rp_target_fini(&target);
		return RP_EXIT_FAILURE;
	}
	if (run->mode == RP_BPF_FORWARD)
		run->ring = ring_buffer__new(bpf_map__fd(run->program.skeleton->maps.forwarded),
					     forwarded, run, NULL);
	if (run->mode == RP_BPF_FORWARD && !run->ring) {
		rp_tool_error("cannot map the BPF ring buffer: %s", strerror(errno));
		rp_target_fini(&target);
	} else {
		status = run_session(run, &target);
		rp_bpf_session_fini(&run->session);
	}
	ring_buffer__free(run->ring);
	rp_bpf_program_fini(&run->program);
	return status;
}

/* "PROVIDER:EVENT". Names of providers may hold a colon, those of events do not. */
static int take_event(struct run *run)
{
	const char *colon = run->options->event ? strrchr(run->options->event, ':') : NULL;

	if (!run->options->event)
		return 0;
	if (!colon || colon == run->options->event || !colon[1]) {
		rp_tool_error("bpf: --event wants PROVIDER:EVENT, not '%s'", run->options->event);
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

static int take_mode(struct run *run)
{
	const struct rp_tool_options *options = run->options;
	const char *mode = options->operands[0];

	if (strcmp(mode, "count") == 0) {
		run->mode = options->field ? RP_BPF_COUNT_FIELD : RP_BPF_COUNT;
	} else if (strcmp(mode, "histogram") == 0) {
		run->mode = RP_BPF_HISTOGRAM;
	} else if (strcmp(mode, "print") == 0) {
		run->mode = RP_BPF_FORWARD;
	} else {
		rp_tool_error("bpf: wants count, histogram or print, not '%s'", mode);
		return -EINVAL;
	}
	if (run->mode == RP_BPF_HISTOGRAM && (!options->event || !options->field)) {
		rp_tool_error("bpf: histogram wants --event and --field");
		return -EINVAL;
	}
	if (run->mode == RP_BPF_FORWARD && options->given & (RP_OPTION_FIELD | RP_OPTION_REFRESH)) {
		rp_tool_error("bpf: print takes neither --field nor --refresh");
		return -EINVAL;
	}
	if (options->field && !options->event) {
		rp_tool_error("bpf: --field goes with --event");
		return -EINVAL;
	}
	if (options->step && run->mode != RP_BPF_HISTOGRAM) {
		rp_tool_error("bpf: --step goes with histogram");
		return -EINVAL;
	}
	return 0;
}

static int take_providers(struct run *run)
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

int main(int argc, char **argv)
{
	const struct rp_tool_command command = {
		.name = "bpf",
		.arguments = RP_BPF_ARGUMENTS,
		.options = RP_BPF_OPTIONS,
		.operands_min = 1,
		.operands_max = 1,
	};
	struct rp_tool_options options;
	static struct run run = { .signal_fd = -1 };
	int status = RP_EXIT_USAGE;

	if (rp_options_parse(&command, argc - 1, argv + 1, &options))
		return RP_EXIT_USAGE;
	run.options = &options;
	if (take_mode(&run) == 0 && take_event(&run) == 0 && take_providers(&run) == 0)
		status = run_program(&run);
	if (run.providers != &run.only)
		free(run.providers);
	free(run.provider);
	if (run.signal_fd >= 0)
		close(run.signal_fd);
	errno = 0;
	if ((fflush(stdout) || ferror(stdout)) && status == RP_EXIT_OK) {
		rp_tool_error("cannot write the output: %s", strerror(errno ? errno : EIO));
		status = RP_EXIT_FAILURE;
	}
	return status;
}
