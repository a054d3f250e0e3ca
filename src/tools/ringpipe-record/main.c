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
#include "tools/ringpipe-record/scheduling.h"
#include "tools/ringpipe-record/server_names.h"
#include "tools/ringpipe-record/sessions.h"
#include "tools/ringpipe-record/spawn_plain.h"
#include "tools/ringpipe-record/wait_programs.h"
#include "tools/cli/display_text.h"
#include "tools/cli/record_options.h"
#include "tools/client/recording.h"
#include "tools/cli/signals.h"
#include "tools/client/target.h"
#include "tools/cli/tool.h"

/*
 * The default of --providers. The sampler of a process supplies the frames of a language runtime,
 * at about the frequency of the recorder's samples; processes without such a runtime take no
 * samples. The second is the profile dotnet-common of dotnet-trace.
 */
#define OWN_PROVIDERS \
	"*:0xffffffffffffffff:4," \
	"Microsoft-DotNETCore-SampleProfiler:0:4:HostOnly=1;SampleProfilerIntervalMS=10"
#define DOTNET_PROVIDERS "Microsoft-Windows-DotNETRuntime:0x100003801d:4"
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
	struct rp_expression *until;	/* of --until; or NULL */
	int64_t elapsed_ms;
	struct rp_recorder *recorder;
	int signal_fd;
	int64_t begin_ms, end_ms;	/* end: INT64_MAX: none */
	int64_t status_ms;		/* when to print the next status line */
	bool live;
	bool stop;
	int64_t start_utc_ns;
	FILE *log;			/* of the messages, for the archive; or NULL */
	pid_t child;			/* 0: none */
	int child_status;
	int signals;			/* that asked to stop */
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

	while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD) {
			run->stop |= take_child(run);
		} else if (run->child) {
			/* The terminal sends Ctrl-C to the command as well. */
			if (info.ssi_signo != SIGINT || info.ssi_code != SI_KERNEL)
				kill(run->child, (int)info.ssi_signo);
		} else {
			run->stop = true;
			run->signals++;
		}
	}
}

static uint64_t sum_losses(const struct rp_recorder_stats *stats)
{
	uint64_t sum = 0;

	for (int i = 0; i < RP_RECORDER_LOSS_COUNT; i++)
		sum += stats->lost[i];
	return sum;
}

static uint64_t sum_session_losses(const struct run *run)
{
	return run->sessions.report ? run->sessions.report->lost : 0;
}

/* Prints " (5 ring of waits full, 2 sessions)", or nothing if nothing was lost, and the newline. */
static void print_reasons(const struct run *run, const struct rp_recorder_stats *stats,
			  FILE *stream)
{
	const char *before = " (";
	char count[RP_TEXT_MAX];

	for (int i = 0; i < RP_RECORDER_LOSS_COUNT; i++) {
		if (!stats->lost[i])
			continue;
		fprintf(stream, "%s%s %s", before, rp_text_count(stats->lost[i], count),
			rp_recorder_loss_text((enum rp_recorder_loss)i));
		before = ", ";
	}
	if (sum_session_losses(run)) {
		fprintf(stream, "%s%s by sessions", before,
			rp_text_count(sum_session_losses(run), count));
		before = ", ";
	}
	fputs(*before == ',' ? ")\n" : "\n", stream);
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
	fprintf(stderr, "\r\033[K%s: %s samples, ",
		rp_text_duration((uint64_t)(now_ms - run->begin_ms) * 1000000, time),
		rp_text_count(stats.samples, samples));
	if (sessions)
		fprintf(stderr, "%s events, ", rp_text_count(sessions->events, events));
	fprintf(stderr, "%s lost, %s, recorder %.1f%% of a CPU",
		rp_text_count(sum_losses(&stats), lost), rp_text_bytes(stats.bytes, bytes),
		100 * cpu / (double)(now_ms - run->begin_ms));
	fflush(stderr);
}

/*
 * Wait for a full ring, a signal or the time of the next pass. A ring is readable as long as it has
 * a record, so a stream of records would cause a pass for a few of them each.
 */
static int wait_for_pass(const struct run *run)
{
	struct pollfd waits[1 + RP_RECORDER_FDS] = {
		{ .fd = run->signal_fd, .events = POLLIN },
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
	if (rp_record_sessions_failed(&run->sessions))
		return -ECANCELED;
	now_ms = rp_now_ms();
	run->stop |= now_ms >= run->end_ms || has_reached(run);
	if (now_ms >= run->status_ms)
		print_status(run, now_ms);
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

static int record(struct run *run)
{
	int ret = 0;

	/* The processes that were started before keep their priority. */
	rp_scheduling_raise();
	run->begin_ms = rp_now_ms();
	run->status_ms = run->begin_ms + STATUS_MS;
	run->end_ms = run->options->duration_ms ?
		      run->begin_ms + (int64_t)run->options->duration_ms : INT64_MAX;
	while (ret == 0 && !run->stop)
		ret = turn(run);
	run->elapsed_ms = rp_now_ms() - run->begin_ms;
	if (run->live)
		fputs("\r\033[K", stderr);
	if (ret == 0)
		ret = rp_recorder_finish(run->recorder);
	if (ret == 0 && run->has_sessions &&
	    rp_record_sessions_stop(&run->sessions, run->signal_fd) < 0)
		ret = -ECANCELED;
	if (ret < 0 && ret != -ECANCELED)
		rp_tool_error("record: cannot write %s: %s", run->output.path, strerror(-ret));
	return ret;
}

/* Prints ", 5 system calls", unless there are none. */
static void print_kind(uint64_t count, const char *what, FILE *stream)
{
	char text[RP_TEXT_MAX];

	if (count)
		fprintf(stream, ", %s %s", rp_text_count(count, text), what);
}

static void print_result(const struct run *run, FILE *stream)
{
	char samples[RP_TEXT_MAX], waits[RP_TEXT_MAX], processes[RP_TEXT_MAX];
	char lost[RP_TEXT_MAX], bytes[RP_TEXT_MAX], time[RP_TEXT_MAX];
	struct rp_recorder_stats stats;
	struct stat file;

	rp_recorder_stats(run->recorder, &stats);
	if (run->output.regular && fstat(run->output.fd, &file) == 0)
		stats.bytes = (uint64_t)file.st_size;
	fprintf(stream, "%s: %s samples and %s waits of %s processes", run->output.path,
		rp_text_count(stats.samples, samples), rp_text_count(stats.waits, waits),
		rp_text_count(stats.processes, processes));
	print_kind(stats.calls, "system calls", stream);
	print_kind(stats.futex_waits, "waits for a futex", stream);
	print_kind(stats.faults, "page faults", stream);
	print_kind(stats.requests, "block requests", stream);
	print_kind(stats.interrupts, "interrupts", stream);
	print_kind(run->sessions.report ? run->sessions.report->events : 0, "events", stream);
	fprintf(stream, " in %s", rp_text_duration((uint64_t)run->elapsed_ms * 1000000, time));
	if (stats.suspended_ns)
		fprintf(stream, " and a suspension of %s",
			rp_text_duration(stats.suspended_ns, time));
	fprintf(stream, ", %s, %s lost", rp_text_bytes(stats.bytes, bytes),
		rp_text_count(sum_losses(&stats) + sum_session_losses(run), lost));
	print_reasons(run, &stats, stream);
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
	};
	int ret = read_roots(run);

	if (ret < 0)
		return ret;
	if (run->has_sessions)
		ret = rp_record_sessions_start(&run->sessions, &run->providers, &scope,
					       run->machine.fd, &run->output);
	if (ret < 0)
		rp_tool_error("record: cannot open sessions: %s", strerror(-ret));
	else
		ret = rp_recorder_create(&options, &run->recorder);
	if (ret < 0)
		return ret;
	ret = rp_recorder_start(run->recorder);
	if (ret < 0)
		rp_tool_error("record: cannot start: %s", strerror(-ret));
	else if (run->has_sessions)
		rp_record_sessions_begin(&run->sessions);
	if (ret == 0 && run->options->child)
		ret = start_child(run);
	return ret;
}

static int parse_providers(struct run *run)
{
	struct rp_record_providers *providers = &run->providers;
	const char *given = run->options->providers;
	int ret = rp_recording_providers_parse(given ? given : OWN_PROVIDERS, "record",
					       &providers->own, &providers->own_count);

	return ret ? ret :
	       rp_recording_providers_parse(given ? given : DOTNET_PROVIDERS, "record",
					    &providers->dotnet, &providers->dotnet_count);
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
	if (!run->has_sessions)
		return 0;
	if (parse_providers(run) < 0)
		return -EINVAL;
	run->machine.fd = rp_output_open_spool(&run->output, rp_target_directory());
	if (run->machine.fd < 0)
		rp_tool_error("record: cannot open a file for a part of the trace: %s",
			      strerror(-run->machine.fd));
	return run->machine.fd < 0 ? run->machine.fd : 0;
}

static void close_parts(struct run *run)
{
	rp_record_sessions_fini(&run->sessions, run->signal_fd);
	if (run->has_sessions && run->machine.fd >= 0)
		close(run->machine.fd);
	free(run->providers.own);
	free(run->providers.dotnet);
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
	if (ret == 0 && !(run->options->given & RP_OPTION_QUIET))
		print_result(run, stderr);
	rp_scheduling_reset();
	if (ret == 0 && run->output.regular)
		rp_server_names_add(run->output.path, run->options->inlines, run->signal_fd);
	else if (ret == 0 && run->options->inlines)
		rp_tool_error("record: --inlines needs the trace in a file, which %s is not",
			      run->output.path);
	if (ret == 0 && run->log) {
		print_result(run, run->log);
		ret = write_archive(run);
	}
	rp_recorder_destroy(run->recorder);
	close_parts(run);
	if (rp_output_close(&run->output) < 0 && ret == 0) {
		rp_tool_error("record: cannot write %s", run->output.path);
		ret = -EIO;
	}
	return ret < 0 ? RP_EXIT_FAILURE : RP_EXIT_OK;
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
		run.signal_fd = rp_signals_open();
		status = run.signal_fd < 0 ? RP_EXIT_FAILURE : run_recorder(&run);
		if (run.signal_fd >= 0)
			rp_signals_close(run.signal_fd);
		if (status == RP_EXIT_OK && options->archive && !options->output)
			unlink(path);
	}
	if (run.log)
		fclose(run.log);
	free(path);
	rp_expression_destroy(run.until);
	return status ? status : run.child_status;
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
