/* SPDX-License-Identifier: MIT */
/*
 * ringpipe-record: `ringpipe record` executes it with the same arguments. It is a separate program,
 * so that `ringpipe` needs no elfutils, and only this file needs capabilities.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/ringpipe-record/archive.h"
#include "tools/ringpipe-record/recorder.h"
#include "tools/ringpipe-record/result.h"
#include "tools/ringpipe-record/scheduling.h"
#include "tools/ringpipe-record/server_names.h"
#include "tools/ringpipe-record/sessions.h"
#include "tools/ringpipe-record/spawn_plain.h"
#include "tools/ringpipe-record/stop_requests.h"
#include "tools/ringpipe-record/wait_programs.h"
#include "tools/cli/display_text.h"
#include "tools/cli/record_options.h"
#include "tools/client/recording.h"
#include "tools/cli/signals.h"
#include "tools/cli/status_line.h"
#include "tools/client/target.h"
#include "tools/cli/tool.h"

#define NO_PROVIDERS "none"

#define FREQUENCY_HZ 99u
#define PASS_MS 100
#define REST_MS 5			/* between two passes; the rings hold more than this */
#define STATUS_MS 1000

struct run {
	const struct rp_tool_options *options;
	struct rp_proc roots[RP_PIDS_MAX];	/* of -p */
	struct rp_output output;
	struct rp_output machine;	/* what the recorder writes: the output, or a part of it */
	struct rp_record_sessions sessions;
	bool has_sessions;
	struct rp_record_providers providers;
	bool lacks_provider;		/* no process has one of them, which was reported */
	struct rp_expression *until;	/* of --until; or NULL */
	int64_t elapsed_ms;
	struct rp_recorder *recorder;
	struct rp_stop_requests requests;
	bool is_cut;			/* by the second request */
	bool has_losses;		/* the sessions ended, so their losses are known */
	int64_t begin_ms, end_ms;	/* end: INT64_MAX: none */
	int64_t status_ms;		/* when to print the next status line */
	bool live;
	bool stop;
	int64_t start_utc_ns;
	FILE *log;			/* of the messages, for the archive; or NULL */
	pid_t child;			/* 0: none */
	int child_status;
};

static bool take_child(struct run *run)
{
	int status;

	if (!run->child || waitpid(run->child, &status, WNOHANG) != run->child)
		return false;
	run->child = 0;
	run->child_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return true;
}

static void take_signals(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->requests.signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD) {
			run->stop |= take_child(run);
		} else if (run->child) {
			/* The terminal sends Ctrl-C to the command as well. */
			if (info.ssi_signo != SIGINT || info.ssi_code != SI_KERNEL)
				kill(run->child, (int)info.ssi_signo);
		} else if (rp_signals_is_request(&info, &run->requests.last)) {
			run->stop = true;
			run->requests.count++;
		}
	}
}

/* Only a signal limits how long a write waits: the end of the command or of the time does not. */
static void note_requests(struct run *run)
{
	run->machine.is_stopping = run->requests.count > 0;
	run->machine.is_cancelled |= run->requests.count > 1;
}

/* While a write waits for the reader of the trace. */
static bool takes_signals(void *data)
{
	struct run *run = data;

	take_signals(run);
	note_requests(run);
	return run->machine.is_cancelled;
}

static void print_status(struct run *run, int64_t now_ms)
{
	char samples[RP_TEXT_MAX], lost[RP_TEXT_MAX], bytes[RP_TEXT_MAX], time[RP_TEXT_MAX];
	char events[RP_TEXT_MAX];
	struct rp_recorder_stats stats;
	struct rusage usage;
	const struct rp_recording_progress *sessions;
	double cpu;

	run->status_ms = now_ms + STATUS_MS;
	if (!run->live || now_ms == run->begin_ms)
		return;
	sessions = run->sessions.report ? &run->sessions.report->progress : NULL;
	rp_recorder_stats(run->recorder, &stats);
	getrusage(RUSAGE_SELF, &usage);
	cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
	      (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3 +
	      (double)(sessions ? sessions->cpu_ns : 0) / 1e6;
	rp_status_line_show("%s: %s, %s%s%s lost, %s, recorder %.1f%% of a CPU",
			    rp_text_duration((uint64_t)(now_ms - run->begin_ms) * 1000000, time),
			    rp_text_counted(stats.samples, "sample", samples),
			    sessions ? rp_text_counted(sessions->events, "event", events) : "",
			    sessions ? ", " : "",
			    rp_text_count(rp_record_losses(&stats) +
					  (sessions ? sessions->lost : 0), lost),
			    rp_text_bytes(stats.bytes, bytes),
			    100 * cpu / (double)(now_ms - run->begin_ms));
}

/*
 * Wait for a full ring, a signal or the time of the next pass. A ring is readable as long as it has
 * a record, so a stream of records would cause a pass for a few of them each.
 */
static int wait_for_pass(const struct run *run)
{
	struct pollfd waits[1 + RP_RECORDER_FDS] = {
		{ .fd = run->requests.signal_fd, .events = POLLIN },
	};
	int fds[RP_RECORDER_FDS], ready = poll(waits, 1, REST_MS);

	rp_recorder_fds(run->recorder, fds);
	for (int i = 0; i < RP_RECORDER_FDS; i++)
		waits[i + 1] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	if (ready == 0)
		ready = poll(waits, 1 + RP_RECORDER_FDS, PASS_MS - REST_MS);
	return ready < 0 && errno != EINTR ? -errno : 0;
}

/* Whether the trace has the size or the event of --until. */
static bool has_reached(const struct run *run)
{
	struct rp_recorder_stats stats;
	struct stat file;

	if (run->until)
		return run->sessions.report->progress.has_until;
	if (!run->options->until_bytes)
		return false;
	if (run->output.regular && fstat(run->output.fd, &file) == 0)
		return (uint64_t)file.st_size >= run->options->until_bytes;
	rp_recorder_stats(run->recorder, &stats);
	return stats.bytes >= run->options->until_bytes;
}

static int turn(struct run *run)
{
	int ret = wait_for_pass(run);
	int64_t now_ms;

	if (ret < 0)
		return ret;
	take_signals(run);
	if (rp_record_sessions_failed(&run->sessions)) {
		ret = rp_record_sessions_error(&run->sessions);
		return ret ? ret : -ECANCELED;
	}
	now_ms = rp_now_ms();
	run->stop |= now_ms >= run->end_ms || has_reached(run) ||
		     rp_record_sessions_error(&run->sessions);
	note_requests(run);
	if (now_ms >= run->status_ms)
		print_status(run, now_ms);
	rp_provider_search_step(run->providers.search, false, run->live);
	return rp_recorder_pass(run->recorder);
}

/* Starts the command after "--". */
static int start_child(struct run *run)
{
	char **arguments = run->options->operands;
	int ret = rp_spawn_plain(arguments[0], arguments, &run->child);

	if (ret < 0)
		rp_tool_error("record: cannot run %s: %s", arguments[0], strerror(-ret));
	return ret;
}

static void explain_failure(const struct run *run, int error)
{
	if (error < 0 && error != -ECANCELED)
		rp_tool_error("record: cannot write %s: %s; the trace ends there", run->output.path,
			      strerror(-error));
}

static int record(struct run *run)
{
	int ret = 0, stopped = 0;

	rp_scheduling_raise();
	run->begin_ms = rp_now_ms();
	run->status_ms = run->begin_ms + STATUS_MS;
	run->end_ms = run->options->duration_ms ?
		      run->begin_ms + (int64_t)run->options->duration_ms : INT64_MAX;
	while (ret == 0 && !run->stop)
		ret = turn(run);
	run->elapsed_ms = rp_now_ms() - run->begin_ms;
	if (run->live)
		rp_status_line_clear();
	rp_recorder_stop(run->recorder);
	if (ret == 0)
		ret = rp_recorder_finish(run->recorder);
	/* First, because a process that does not answer delays the end of the sessions. */
	explain_failure(run, ret);
	/* Also on a full disk, because the result has the losses of the sessions. */
	if (run->has_sessions)
		stopped = rp_record_sessions_stop(&run->sessions, &run->requests);
	rp_provider_search_step(run->providers.search, true, false);
	if (ret == 0) {
		ret = stopped;
		explain_failure(run, ret);
	}
	run->has_losses = stopped != -ECANCELED && rp_record_sessions_has_losses(&run->sessions);
	run->is_cut = run->sessions.is_cut || rp_stop_requests_take(&run->requests);
	if (ret == -ECANCELED && !run->has_sessions) {
		ret = run->is_cut ? 0 : ret;
		if (run->is_cut)
			rp_tool_error("record: cancelled; the trace may stop before its end");
		else
			rp_output_report_unread(&run->output);
	}
	return ret;
}

/* Return: the groups of events that the options request besides samples. */
static unsigned int find_groups(const struct rp_tool_options *options)
{
	return options->given & (RP_OPTION_MACHINE | RP_OPTION_PROFILE) ? options->kernel :
	       RP_KERNEL_SCHED;
}

static unsigned int find_programs(unsigned int groups)
{
	return (groups & RP_KERNEL_SYSCALLS ? RP_WAITS_CALLS : 0) |
	       (groups & RP_KERNEL_FUTEX ? RP_WAITS_FUTEX : 0) |
	       (groups & RP_KERNEL_FAULTS ? RP_WAITS_FAULTS : 0) |
	       (groups & RP_KERNEL_BLOCK ? RP_WAITS_BLOCK : 0) |
	       (groups & RP_KERNEL_IRQ ? RP_WAITS_INTERRUPTS : 0);
}

/* Return: 0; -ESRCH, after an error line: one of the chosen processes does not exist. */
static int read_roots(struct run *run)
{
	for (size_t i = 0; i < run->options->pid_count; i++) {
		const pid_t pid = run->options->pids[i];

		if (rp_proc_read(pid, &run->roots[i]) == 0)
			continue;
		rp_tool_error("record: there is no process %d", pid);
		return -ESRCH;
	}
	return 0;
}

static int start_recorder(struct run *run, const struct rp_recorder_options *options)
{
	int ret = rp_recorder_create(options, &run->recorder);

	if (ret < 0)
		return ret;
	ret = rp_recorder_start(run->recorder);
	if (ret < 0)
		rp_tool_error("record: cannot start: %s", strerror(-ret));
	return ret;
}

/* Until the first pass, which writes. Return: 0; -errno, after an error line. */
static int start(struct run *run)
{
	const unsigned int groups = find_groups(run->options);
	const struct rp_record_scope scope = {
		.roots = { .processes = run->roots, .count = run->options->pid_count },
		.until = run->until,
		.filter = {
			.by_user = run->options->given & RP_OPTION_USER,
			.user = run->options->user, .cgroup = run->options->cgroup,
		},
	};
	const struct rp_recorder_options options = {
		.buffer_bytes = (size_t)run->options->buffer_mb << 20,
		.groups = find_programs(groups), .without_waits = !(groups & RP_KERNEL_SCHED),
		.frequency_hz = FREQUENCY_HZ, .wait_ns = run->options->off_cpu_ns,
		.output = &run->machine, .roots = scope.roots, .filter = scope.filter,
		.stop_requests = &run->requests,
	};
	int ret = read_roots(run);

	if (ret < 0)
		return ret;
	if (run->has_sessions)
		ret = rp_record_sessions_start(&run->sessions, &run->providers, &scope,
					       run->machine.fd, &run->output);
	if (ret < 0) {
		rp_tool_error("record: cannot open sessions: %s", strerror(-ret));
		return ret;
	}
	/*
	 * The rings fill up from the beginning, while the recorder reads what all processes have
	 * mapped. The command starts with the priority that this process had.
	 */
	rp_scheduling_raise();
	ret = start_recorder(run, &options);
	rp_scheduling_reset();
	if (ret == 0 && run->has_sessions)
		rp_record_sessions_begin(&run->sessions);
	if (ret == 0 && run->options->child)
		ret = start_child(run);
	return ret;
}

/* With sessions, the recorder writes an unnamed file, which is a part of the output. */
static int open_parts(struct run *run)
{
	run->machine = run->output;
	run->has_sessions = !run->options->providers ||
			    strcmp(run->options->providers, NO_PROVIDERS) != 0;
	if (!run->has_sessions && run->options->until) {
		rp_tool_error("record: --until with an event needs sessions, which --providers %s "
			      "turns off", NO_PROVIDERS);
		return -EINVAL;
	}
	if (!run->has_sessions) {
		rp_output_make_interruptible(&run->machine, run->requests.signal_fd, takes_signals,
					     run);
		return 0;
	}
	if (rp_record_providers_parse(run->options, &run->providers) < 0)
		return -EINVAL;
	run->machine.fd = rp_output_open_spool(&run->output, rp_target_directory());
	if (run->machine.fd < 0)
		rp_tool_error("record: cannot open a file for a part of the trace: %s",
			      strerror(-run->machine.fd));
	return run->machine.fd < 0 ? run->machine.fd : 0;
}

static void close_parts(struct run *run)
{
	rp_record_sessions_fini(&run->sessions, &run->requests);
	if (run->has_sessions && run->machine.fd >= 0)
		close(run->machine.fd);
	run->lacks_provider = rp_provider_search_has_failed(run->providers.search);
	rp_record_providers_fini(&run->providers);
}

static int write_archive(struct run *run)
{
	const struct rp_tool_options *options = run->options;
	const struct rp_archive_plan plan = {
		.path = options->archive,
		.is_forced = options->given & RP_OPTION_FORCE,
		.trace_path = run->output.path,
		.trace_name = "machine.nettrace",
		.log_fd = fileno(run->log),
		.start_utc_ns = run->start_utc_ns,
		.duration_ms = run->elapsed_ms,
		.images = rp_recorder_images(run->recorder),
		.has_binaries = options->given & RP_OPTION_BINARIES,
	};
	int ret = rp_archive_write(&plan);

	if (ret < 0)
		rp_tool_error("record: cannot write %s: %s; the trace is in %s", options->archive,
			      strerror(-ret), run->output.path);
	return ret;
}

static int run_recorder(struct run *run)
{
	int ret = open_parts(run);
	bool has_reader;

	if (ret == 0)
		ret = start(run);
	if (ret < 0) {
		rp_recorder_destroy(run->recorder);
		close_parts(run);
		rp_output_discard(&run->output);
		return RP_EXIT_FAILURE;
	}
	if (run->live)
		rp_tool_say(stderr, "Recording this machine into %s", run->output.path);
	ret = record(run);
	if (run->has_losses && !(run->options->given & RP_OPTION_QUIET))
		rp_record_result_print(run->recorder, &run->sessions, &run->output,
				       run->elapsed_ms, stderr);
	rp_scheduling_reset();
	if (ret == 0 && run->output.regular && !run->is_cut)
		rp_server_names_add(run->output.path, run->options->inlines,
				    run->requests.signal_fd);
	else if (ret == 0 && run->options->inlines && !run->output.regular)
		rp_tool_error("record: --inlines needs the trace in a file, which %s is not",
			      run->output.path);
	if (ret == 0 && run->log) {
		rp_record_result_print(run->recorder, &run->sessions, &run->output,
				       run->elapsed_ms, run->log);
		ret = write_archive(run);
	}
	rp_recorder_destroy(run->recorder);
	close_parts(run);
	has_reader = rp_output_has_reader(&run->output);
	if (rp_output_close(&run->output) < 0 && ret == 0) {
		rp_tool_error("record: cannot write %s", run->output.path);
		ret = -EIO;
	}
	if (ret < 0)
		return has_reader ? RP_EXIT_FAILURE : RP_EXIT_NO_READER;
	return run->is_cut ? RP_EXIT_GAVE_UP : RP_EXIT_OK;
}

/*
 * Prepare what the archive gets. Its log is a file without a buffer, because the process of the
 * sessions writes into it, too. Return: 0; -errno, after an error line.
 */
static int open_log(struct run *run)
{
	const struct rp_tool_options *options = run->options;
	struct timespec now;

	if (!options->archive)
		return 0;
	if (options->output && strcmp(options->output, "-") == 0) {
		rp_tool_error("record: --archive needs the trace in a file, which -o - is not");
		return -EINVAL;
	}
	if (!rp_archive_is_supported()) {
		rp_tool_error("record: --archive needs libarchive, which this build lacks");
		return -EOPNOTSUPP;
	}
	if (!(options->given & RP_OPTION_FORCE) && access(options->archive, F_OK) == 0) {
		rp_tool_error("record: %s exists; --force overwrites it", options->archive);
		return -EEXIST;
	}
	run->log = tmpfile();
	if (!run->log) {
		rp_tool_error("record: cannot open a file for messages: %s", strerror(errno));
		return -errno;
	}
	setvbuf(run->log, NULL, _IONBF, 0);
	rp_tool_set_error_log(run->log);
	clock_gettime(CLOCK_REALTIME, &now);
	run->start_utc_ns = now.tv_sec * 1000000000ll + now.tv_nsec;
	return 0;
}

/* Return: the path of the trace, for free(); NULL: no memory. */
static char *find_path(const struct rp_tool_options *options)
{
	char *pattern = NULL, *path;

	if (options->archive && !options->output)
		return asprintf(&path, "%s.nettrace", options->archive) < 0 ? NULL : path;
	pattern = rp_output_pattern(options->output, "machine", "nettrace");
	path = pattern ? rp_text_expand_pid(pattern, getpid()) : NULL;
	free(pattern);
	return path;
}

static int run_options(const struct rp_tool_options *options)
{
	struct run run = { .options = options, .sessions.begin_fd = -1 };
	int status = RP_EXIT_FAILURE;
	char *path;

	if ((options->given & RP_OPTION_BINARIES) && !options->archive) {
		rp_tool_error("record: --binaries requires --archive");
		return RP_EXIT_USAGE;
	}
	if (options->inlines && options->output && strcmp(options->output, "-") == 0) {
		rp_tool_error("record: --inlines needs the trace in a file, which -o - is not");
		return RP_EXIT_USAGE;
	}
	if (options->until && rp_expression_take("record: --until", options->until, &run.until))
		return RP_EXIT_USAGE;
	path = find_path(options);
	if (!path) {
		rp_tool_error("out of memory");
		rp_expression_destroy(run.until);
		return RP_EXIT_FAILURE;
	}
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (open_log(&run) == 0 &&
	    rp_output_open(&run.output, path, options->given & RP_OPTION_FORCE) == 0 &&
	    rp_output_begin(&run.output) == 0) {
		run.live = isatty(STDERR_FILENO) && !(options->given & RP_OPTION_QUIET);
		run.requests.signal_fd = rp_signals_open();
		status = run.requests.signal_fd < 0 ? RP_EXIT_FAILURE : run_recorder(&run);
		if (run.requests.signal_fd >= 0)
			rp_signals_close(run.requests.signal_fd);
		if (status != RP_EXIT_FAILURE && options->archive && !options->output)
			unlink(path);
	}
	if (run.log)
		fclose(run.log);
	free(path);
	rp_expression_destroy(run.until);
	return status ? status : run.lacks_provider ? RP_EXIT_FAILURE : run.child_status;
}

int main(int argc, char **argv)
{
	static const struct rp_tool_command command = {
		.name = "record",
		.arguments = "[PID | -p PID… | -- COMMAND ARGUMENTS…]",
		.options = RP_RECORD_OPTIONS,
		.takes_child = true,
		.process_is_optional = true,
		.takes_processes = true,
		.is_binary = true,
		.run = run_options,
	};

	return rp_options_run(&command, argc, argv);
}
