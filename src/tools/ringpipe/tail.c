/* SPDX-License-Identifier: MIT */
/*
 * ringpipe tail: a session whose stream goes through a pipe to a process that prints it. If that
 * process cannot print fast enough, the pipe is full, the stream stops, and the traced process
 * drops and counts events. It never waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#include "nettrace/reader_parts.h"
#include "tools/cli/display_text.h"
#include "tools/cli/signals.h"
#include "tools/cli/tool.h"
#include "tools/client/providers.h"
#include "tools/client/recording.h"
#include "tools/formats/event_printer.h"
#include "tools/ringpipe/machine_sessions.h"
#include "tools/trace/dotnet.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/input.h"

/* The least time between two lines about dropped events. */
#define REPORT_MS 1000

/* In memory that the processes of the command share. */
struct tail_shared {
	struct rp_shared_output output;
	uint64_t printed, events, lost;	/* atomic; of the sessions that have ended */
};

struct tail {
	const struct rp_tool_options *options;
	struct rp_recording_plan plan;
	struct rp_expression *where;	/* or NULL */
	struct tail_shared *shared;
	bool machine;			/* lines and messages name the process */
};

/* The state of a process that prints. */
struct tail_printer {
	const struct tail *tail;
	pid_t pid;			/* of the traced process */
	struct rp_event_printer printer;
	bool is_locked;			/* it holds the lock of standard output */
	struct rp_reader *reader;
	int fd;				/* of the stream */
	uint64_t reported;		/* dropped events that lines were about */
	int64_t report_ms;		/* the time of the next such line */
};

static void lock_output(struct tail_printer *tail)
{
	if (!tail->is_locked)
		rp_shared_output_lock(&tail->tail->shared->output);
	tail->is_locked = true;
}

static void flush_output(struct tail_printer *tail)
{
	if (!tail->is_locked)
		return;
	fflush(stdout);
	rp_shared_output_unlock(&tail->tail->shared->output);
	tail->is_locked = false;
}

/* Before the reader waits for more, all that was printed must be visible. */
static ssize_t read_stream(void *data, void *buffer, size_t size)
{
	struct tail_printer *tail = data;
	ssize_t got;

	flush_output(tail);
	do
		got = read(tail->fd, buffer, size);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static void report_dropped(struct tail_printer *tail, bool is_end)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	char text[RP_TEXT_MAX];
	uint64_t more;

	rp_reader_get_stats(tail->reader, &stats);
	more = stats.lost - tail->reported;
	if (!more || (!is_end && rp_now_ms() < tail->report_ms))
		return;
	flush_output(tail);
	if (tail->tail->machine)
		rp_tool_error("tail: process %d: dropped %s", tail->pid,
			      rp_text_counted(more, "event", text));
	else
		rp_tool_error("tail: dropped %s", rp_text_counted(more, "event", text));
	tail->reported = stats.lost;
	tail->report_ms = rp_now_ms() + REPORT_MS;
}

static int print_event(struct tail_printer *tail, const struct rp_reader_event *event)
{
	/* Set the name once for all events of the type. */
	if (!event->type->user) {
		if (!*event->type->name)
			event->type->name = rp_dotnet_event_name(event->type);
		event->type->user = tail;
	}
	lock_output(tail);
	return rp_event_printer_print(&tail->printer, event, event->process, tail->tail->machine ||
				      event->process != tail->printer.info.process_id);
}

static void add_totals(const struct tail_printer *tail)
{
	struct tail_shared *shared = tail->tail->shared;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;

	rp_reader_get_stats(tail->reader, &stats);
	__atomic_fetch_add(&shared->printed, tail->printer.printed, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->events, stats.events, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shared->lost, stats.lost, __ATOMIC_RELAXED);
}

/* Return: what ended the stream. */
static int print_stream(struct tail_printer *tail)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	int ret;

	tail->printer.info.size = sizeof(tail->printer.info);
	rp_reader_get_info(tail->reader, &tail->printer.info);
	while ((ret = rp_reader_next(tail->reader, &event)) == 1) {
		ret = print_event(tail, &event);
		report_dropped(tail, false);
		if (ret)
			break;
	}
	return ret;
}

/* Runs in the process that prints. Return: its exit status. */
static int run_printer(struct tail_printer *tail)
{
	struct rp_byte_source source;
	char buffer[512] = "";
	const char *error;
	int ret;

	rp_byte_source_init_read(&source, read_stream, tail);
	ret = rp_reader_open_source(&source, &tail->reader, buffer, sizeof(buffer));
	/* The session never began, which the other process reports. */
	if (ret)
		return RP_EXIT_FAILURE;
	ret = print_stream(tail);
	flush_output(tail);
	if (ferror(stdout)) {
		rp_tool_error("cannot write the output: %s", strerror(ret < 0 ? -ret : EIO));
		return RP_EXIT_FAILURE;
	}
	report_dropped(tail, true);
	error = rp_input_explain(tail->reader, ret, buffer, sizeof(buffer));
	if (error)
		rp_tool_error("tail: process %d: %s; the events before that were printed",
			      tail->pid, error);
	add_totals(tail);
	rp_reader_close(tail->reader);
	rp_event_printer_fini(&tail->printer);
	return error ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

/* Start the process that prints what comes from the pipe. Return: its id; -errno. */
static pid_t start_printer(const struct tail *tail, const int pipe_fds[2])
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		struct tail_printer printer = {
			.tail = tail, .fd = pipe_fds[0], .pid = tail->plan.target->pid,
			.printer = {
				.stream = stdout,
				.format = tail->options->format, .where = tail->where,
				.all = tail->options->given & RP_OPTION_ALL,
			},
		};

		close(pipe_fds[1]);
		/* If the reader of standard output leaves, this process ends. */
		signal(SIGPIPE, SIG_DFL);
		_exit(run_printer(&printer));
	}
	return pid < 0 ? -errno : pid;
}

/* Return: the exit status of the command, which the printer's end determines. */
static int end_printer(struct tail *tail, pid_t printer,
		       const struct rp_recording_result *result)
{
	const bool is_cut = result->end == RP_RECORDING_GAVE_UP ||
			    result->end == RP_RECORDING_CANCELLED;
	int status;

	/* It may wait for a terminal that is stopped. */
	if (is_cut)
		kill(printer, SIGKILL);
	while (waitpid(printer, &status, 0) < 0) {
		if (errno != EINTR)
			return RP_EXIT_FAILURE;
	}
	if (result->end == RP_RECORDING_GAVE_UP)
		return RP_EXIT_GAVE_UP;
	/* The reader of standard output has left, as head(1) does. */
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) {
		tail->shared->output.reader_left = true;
		return RP_EXIT_OK;
	}
	if (WIFSIGNALED(status) && is_cut) {
		rp_tool_error("tail: stopped before all events were printed");
		tail->shared->output.is_cut = true;
		return RP_EXIT_FAILURE;
	}
	if (result->end == RP_RECORDING_FAILED || result->end == RP_RECORDING_OUTPUT_FAILED ||
	    result->end == RP_RECORDING_STREAM_FAILED || !WIFEXITED(status))
		return RP_EXIT_FAILURE;
	return WEXITSTATUS(status);
}

static int print_session(struct tail *tail)
{
	const struct rp_recording_plan *plan = &tail->plan;
	struct rp_recording_result result = { .end = RP_RECORDING_FAILED };
	struct rp_output output = {
		.path = "the pipe to the printer", .filter_fd = -1, .status_fd = -1,
	};
	int pipe_fds[2], status;
	pid_t printer;

	if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
		rp_tool_error("tail: %s", strerror(errno));
		return RP_EXIT_FAILURE;
	}
	printer = start_printer(tail, pipe_fds);
	close(pipe_fds[0]);
	output.fd = pipe_fds[1];
	if (printer < 0) {
		rp_tool_error("tail: %s", strerror(-printer));
		close(output.fd);
		return RP_EXIT_FAILURE;
	}
	rp_recording_run(plan, &output, &result);
	rp_output_close(&output);
	status = end_printer(tail, printer, &result);
	if (status == RP_EXIT_OK && result.end == RP_RECORDING_PEER_ENDED &&
	    !tail->shared->output.reader_left && !(tail->options->given & RP_OPTION_QUIET))
		fprintf(stderr, "Process %d ended the session.\n", plan->target->pid);
	return status;
}

/*
 * Print the events of a process until its session ends. `plan.signal_fd` receives the signals that
 * stop it. Return: the exit status.
 */
static int tail_process(struct tail *tail, const struct rp_target *target)
{
	tail->plan.target = target;
	tail->plan.format = rp_providers_choose_format(target);
	return print_session(tail);
}

static int tail_target(struct tail *tail)
{
	const struct rp_tool_options *options = tail->options;
	struct rp_target target;
	int status = RP_EXIT_FAILURE;

	if (rp_target_find(options->pid, options->name, &target))
		return RP_EXIT_FAILURE;
	if (!rp_recording_check_providers(options, &target, tail->plan.providers,
					  tail->plan.provider_count))
		status = tail_process(tail, &target);
	rp_target_fini(&target);
	return status;
}

static int create_shared(struct tail *tail)
{
	void *shared = mmap(NULL, sizeof(*tail->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return -errno;
	tail->shared = shared;
	rp_shared_output_init(&tail->shared->output);
	return 0;
}

static int run_member(void *data, const struct rp_target *target)
{
	struct tail *tail = data;

	tail->plan.duration_ms = 0;
	return tail_process(tail, target);
}

/* Print the events of all processes, also of those that start later, until a signal. */
static int tail_machine(struct tail *tail)
{
	int status;

	if (rp_recording_search_providers(tail->options, "tail", tail->plan.providers,
					  tail->plan.provider_count, &tail->plan.search))
		return RP_EXIT_FAILURE;
	status = rp_machine_sessions_run(&(struct rp_machine_sessions){
		.command = "tail", .signal_fd = tail->plan.signal_fd,
		.duration_ms = tail->plan.duration_ms, .output = &tail->shared->output,
		.search = tail->plan.search, .run = run_member, .data = tail,
	});
	rp_provider_search_destroy(tail->plan.search);
	return status;
}

static void print_totals(const struct tail *tail)
{
	const struct tail_shared *shared = tail->shared;
	char printed[RP_TEXT_MAX], events[RP_TEXT_MAX], lost[RP_TEXT_MAX];

	if (!shared->events || tail->options->given & RP_OPTION_QUIET)
		return;
	fprintf(stderr, "%s of %s printed, %s dropped\n",
		rp_text_count(shared->printed, printed),
		rp_text_counted(shared->events, "event", events),
		rp_text_count(shared->lost, lost));
}

static int run(struct tail *tail)
{
	const struct rp_event_printer header = { .stream = stdout,
						 .format = tail->options->format };
	int ret = create_shared(tail), status;

	if (ret == 0)
		ret = tail->plan.signal_fd = rp_signals_open();
	if (ret < 0) {
		rp_tool_error("tail: %s", strerror(-ret));
		return RP_EXIT_FAILURE;
	}
	rp_event_printer_begin(&header);
	fflush(stdout);
	status = tail->machine ? tail_machine(tail) : tail_target(tail);
	print_totals(tail);
	rp_signals_close(tail->plan.signal_fd);
	munmap(tail->shared, sizeof(*tail->shared));
	return status;
}

int rp_command_tail(const struct rp_tool_options *options)
{
	struct tail tail = {
		.options = options, .machine = !options->pid && !options->name,
		.plan = { .buffer_mb = options->buffer_mb, .duration_ms = options->duration_ms },
	};
	struct rp_session_provider *providers;
	int status;

	if (options->where && rp_expression_take("tail: --where", options->where, &tail.where))
		return RP_EXIT_USAGE;
	if (rp_recording_providers(options, "tail", &providers, &tail.plan.provider_count)) {
		rp_expression_destroy(tail.where);
		return RP_EXIT_USAGE;
	}
	tail.plan.providers = providers;
	signal(SIGPIPE, SIG_IGN);
	status = run(&tail);
	free(providers);
	rp_expression_destroy(tail.where);
	return status;
}
