/* SPDX-License-Identifier: MIT */
/*
 * phased: execute the commands of standard input, one per line, and answer each with a line: `ok`,
 * or `failed ERROR CALL`. The program writes events while no command is waiting, and ends with its
 * input.
 *
 *	phase N		begin phase N for supervise.c
 *	start KIND	start a session of one of the kinds below
 *	work		write events until the session has them
 *	prepare [SIZE WHAT]	call rp_prepare() for everything, or with these options
 *	snapshot	take a snapshot of a flight recorder
 *	flush		flush all sessions
 *	context		publish the context of the process
 *	stop		stop the session
 *	move USER PATH	change the root directory and the user
 *	allow N,…	allow only these system calls from now on
 *	confine N,…	prepare everything and allow only these calls, while no other thread runs
 *	fork		fork: the child reports its pid and executes the further commands
 *	close		close all descriptors, as a daemon does
 *	open		call rp_diagnostics_fd()
 *	dispatch	call rp_diagnostics_dispatch()
 */
#include "allow_calls.h"
#include "check.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "phases.h"

#define LINE_BYTES 4096u
#define EVENTS_AT_ONCE 1000u
#define BURST 100000u		/* more events than the rings of a waiting session hold */
#define TICK_US 2000
#define FLUSH_MS 60000u
#define CLOSED_MAX 64		/* more descriptors than this program has */

#ifdef DIAGNOSTICS
RP_DIAGNOSTICS(DIAGNOSTICS);
#endif

RP_PROVIDER(phased, "Test-Phased");
RP_EVENT(phased, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_STRING(text));
RP_EVENT(phased, slow, 2, RP_LEVEL_ERROR, 0, RP_U64(serial));
RP_COUNTER(phased, marks, NULL, NULL);

struct kind {
	const char *name;
	uint32_t flags;
	uint32_t block_ms;
	size_t buffer_bytes;
	uint64_t roll_bytes;
	const char *recover_path;
	const char *provider;		/* NULL: this program's provider */
	const char *filter_data;
	bool listens, pushes, watches;
};

static const struct kind kinds[] = {
	{ .name = "file" },
	{ .name = "recovery", .recover_path = "rings" },
	{ .name = "roll", .roll_bytes = RP_SESSION_ROLL_MIN },
	{ .name = "stacks", .flags = RP_SESSION_STACKS },
	{ .name = "coarse", .flags = RP_SESSION_COARSE },
	{ .name = "causal", .flags = RP_SESSION_CAUSAL },
	{ .name = "block", .block_ms = 1000 },
	{ .name = "samples", .provider = "Microsoft-DotNETCore-SampleProfiler" },
	{ .name = "counters", .filter_data = "EventCounterIntervalSec=0.05" },
	{ .name = "recorder", .flags = RP_SESSION_OVERWRITE,
	  .buffer_bytes = RP_SESSION_OVERWRITE_MIN },
	{ .name = "triggers", .flags = RP_SESSION_OVERWRITE,
	  .buffer_bytes = RP_SESSION_OVERWRITE_MIN, .watches = true },
	{ .name = "pull", .listens = true },
	{ .name = "push", .listens = true, .pushes = true },
};

static struct {
	const struct kind *kind;
	struct rp_session *session;
	struct rp_listener *listener;
	struct rp_triggers *triggers;
	unsigned int heard;
	uint64_t written;
} now;

static void say(const char *text, int error)
{
	char line[LINE_BYTES];
	const char *call = rp_error_call();
	int bytes = error ? snprintf(line, sizeof(line), "%s %d %s\n", text, -error,
				     call ? call : "-") :
		    snprintf(line, sizeof(line), "%s\n", text);

	check(write(STDOUT_FILENO, line, (size_t)bytes) == bytes);
}

/* Return: whether a line, or the end of the input, can be read. */
static bool is_asked(void)
{
	struct timeval tick = { .tv_usec = TICK_US };
	fd_set input;

	FD_ZERO(&input);
	FD_SET(STDIN_FILENO, &input);
	return select(STDIN_FILENO + 1, &input, NULL, NULL, &tick) != 0;
}

static void pause_a_tick(void)
{
	struct timeval tick = { .tv_usec = TICK_US };

	(void)select(0, NULL, NULL, NULL, &tick);
}

static bool read_line(char line[LINE_BYTES])
{
	for (size_t at = 0; at + 1 < LINE_BYTES; at++) {
		if (read(STDIN_FILENO, line + at, 1) != 1)
			return false;
		if (line[at] == '\n') {
			line[at] = '\0';
			return true;
		}
	}
	return false;
}

static void write_some(void)
{
	const unsigned int count = now.kind && now.kind->block_ms ? BURST : EVENTS_AT_ONCE;

	for (unsigned int i = 0; i < count; i++) {
		if (phased_mark(now.written, "text") == 0)
			now.written++;
		phased_marks_add(1);
	}
}

static void count_event(const struct rp_listener_event *event, void *data)
{
	(void)event;
	__atomic_fetch_add((unsigned int *)data, 1, __ATOMIC_RELAXED);
}

static uint64_t delivered(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	if (now.listener)
		return rp_listener_get_stats(now.listener, &stats) == 0 ? stats.delivered : 0;
	return rp_session_get_stats(now.session, &stats) == 0 ? stats.delivered : 0;
}

/* An output error ends a session; the wait for its events then ends successfully. */
static bool has_failed(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	return now.session && rp_session_get_stats(now.session, &stats) == 0 && stats.error;
}

static void hear(void)
{
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;

	while (!now.kind->pushes && rp_listener_next(now.listener, &event, 0) == 1)
		now.heard++;
}

static bool is_seen(uint64_t most)
{
	if (now.listener) {
		hear();
		return __atomic_load_n(&now.heard, __ATOMIC_RELAXED) >= now.written;
	}
	if (now.triggers) {
		struct rp_trigger_stats stats = RP_TRIGGER_STATS_INIT;

		(void)rp_triggers_get_stats(now.triggers, &stats);
		return stats.snapshots + stats.failed > 0;
	}
	return now.kind->flags & RP_SESSION_OVERWRITE || delivered() >= most || has_failed();
}

static void write_and_wait(void)
{
	write_some();
	if (phased_slow(now.written) == 0)
		now.written++;
	wait_until((pause_a_tick(), is_seen(now.written)));
}

static int open_session(const struct rp_session_options *options)
{
	const struct rp_trigger_options triggers = {
		.size = sizeof(triggers), .triggers = "Test-Phased:slow", .path = "seen.nettrace",
	};
	int ret;

	if (now.kind->listens)
		return rp_listener_start(options, now.kind->pushes ? count_event : NULL,
					 &now.heard, &now.listener);
	ret = rp_session_start(options, &now.session);
	if (ret == 0 && now.kind->watches) {
		ret = rp_triggers_start(now.session, &triggers, &now.triggers);
		if (ret != 0) {
			(void)rp_session_stop(now.session, NULL);
			now.session = NULL;
		}
	}
	return ret;
}

/* Start a session. The drain thread has begun when this function returns. */
static int start(const char *name)
{
	struct rp_session_provider wanted[2] = {
		{ .size = sizeof(wanted[0]), .name = "Test-Phased", .keywords = UINT64_MAX,
		  .level = 5 },
		{ .size = sizeof(wanted[0]), .keywords = UINT64_MAX, .level = 5 },
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = wanted, .provider_count = 1,
		.output_path = "trace.nettrace", .buffer_bytes = 4 * RP_SESSION_BUFFER_MIN,
	};
	int ret;

	for (now.kind = kinds; strcmp(now.kind->name, name) != 0; now.kind++)
		check(now.kind + 1 < kinds + sizeof(kinds) / sizeof(kinds[0]));
	options.flags = now.kind->flags;
	options.block_ms = now.kind->block_ms;
	options.roll_bytes = now.kind->roll_bytes;
	options.recover_path = now.kind->recover_path;
	if (now.kind->buffer_bytes)
		options.buffer_bytes = now.kind->buffer_bytes;
	wanted[0].filter_data = now.kind->filter_data;
	wanted[1].name = now.kind->provider;
	options.provider_count += now.kind->provider != NULL;
	now.written = now.heard = 0;
	ret = open_session(&options);
	if (ret == 0)
		write_and_wait();
	return ret;
}

/* Counters and samples are events of the session too: wait for some of them. */
static int work(void)
{
	const unsigned int others = now.kind->provider || now.kind->filter_data ? 3 : 0;

	for (unsigned int i = 0; i < 5; i++)
		write_and_wait();
	for (uint64_t most = delivered() + others; others && delivered() < most && !has_failed();)
		write_some();
	return 0;
}

static int stop(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	int ret;

	if (now.listener)
		ret = rp_listener_stop(now.listener, &stats);
	else
		ret = rp_triggers_stop(now.triggers, NULL) ||
		      rp_session_stop(now.session, &stats) ? stats.error : 0;
	now.session = NULL;
	now.listener = NULL;
	now.triggers = NULL;
	if (ret == 0 && !(now.kind->flags & RP_SESSION_OVERWRITE))
		check(stats.delivered + stats.lost >= now.written);
	return ret;
}

/* Set a filter for all threads that kills the process at any other call. */
static int allow(const char *list)
{
	return allow_calls(list, SECCOMP_FILTER_FLAG_TSYNC);
}

/* Change the root directory and the user. */
static int move(const char *where)
{
	char *folder;
	uint32_t user = (uint32_t)strtoul(where, &folder, 10);

	return chroot(folder + 1) == 0 && chdir("/") == 0 && setgid(user) == 0 &&
	       setuid(user) == 0 ? 0 : -errno;
}

static int prepare(const char *arguments)
{
	char *what;
	struct rp_prepare_options options = {
		.size = (uint32_t)strtoul(arguments, &what, 10),
		.what = (uint32_t)strtoul(what, NULL, 10),
	};

	return rp_prepare(&options);
}

/*
 * Give this thread a real-time priority on its CPU. A new thread does not inherit the priority, and
 * runs only while this thread waits.
 */
static int run_first(void)
{
	struct sched_param first = { .sched_priority = 1 };
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	return sched_setaffinity(0, sizeof(here), &here) == 0 &&
	       sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) == 0 ? 0 : -errno;
}

static int confine(const char *list)
{
	struct sched_param none = { 0 };
	int ret = run_first();

	if (ret == 0)
		ret = rp_prepare(NULL);
	if (ret == 0)
		ret = allow(list);
	(void)sched_setscheduler(0, SCHED_OTHER, &none);
	return ret;
}

/* The child returns immediately. The parent waits, so that it reads no command of the child. */
static int fork_child(void)
{
	siginfo_t end;
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (child == 0) {
		say("process", -getpid());
		return 0;
	}
	check(waitid(P_PID, (id_t)child, &end, WEXITED) == 0);
	check(end.si_code == CLD_EXITED && end.si_status == 0);
	return 0;
}

static int close_descriptors(void)
{
	for (int fd = STDERR_FILENO + 1; fd < CLOSED_MAX; fd++)
		(void)close(fd);
	return 0;
}

static int obey_for_process(const char *line)
{
	int fd;

	if (strcmp(line, "fork") == 0)
		return fork_child();
	if (strcmp(line, "close") == 0)
		return close_descriptors();
	if (strcmp(line, "dispatch") == 0)
		return rp_diagnostics_dispatch();
	if (strcmp(line, "open") == 0) {
		fd = rp_diagnostics_fd();
		return fd < 0 ? fd : 0;
	}
	return -ENOTSUP;
}

static int obey(const char *line)
{
	if (strncmp(line, "phase ", 6) == 0)
		return prctl((int)(PHASE_MAGIC + strtoul(line + 6, NULL, 10)), 0, 0, 0, 0) == 0 ?
		       0 : -errno;
	if (strncmp(line, "start ", 6) == 0)
		return start(line + 6);
	if (strcmp(line, "work") == 0)
		return work();
	if (strcmp(line, "snapshot") == 0)
		return rp_session_snapshot(now.session, "snapshot.nettrace", -1, NULL);
	if (strcmp(line, "flush") == 0)
		return rp_sessions_flush(FLUSH_MS);
	if (strcmp(line, "watch") == 0)
		return rp_snapshot_on_signal(SIGUSR2, "signal.nettrace");
	if (strncmp(line, "prepare ", 8) == 0)
		return prepare(line + 8);
	if (strcmp(line, "prepare") == 0)
		return rp_prepare(NULL);
	if (strncmp(line, "allow ", 6) == 0)
		return allow(line + 6);
	if (strncmp(line, "confine ", 8) == 0)
		return confine(line + 8);
	if (strncmp(line, "move ", 5) == 0)
		return move(line + 5);
	if (strcmp(line, "tracers") == 0)
		return rp_tracers_watch(10);
	if (strcmp(line, "context") == 0)
		return rp_process_context_publish(NULL);
	if (strcmp(line, "stop") == 0)
		return stop();
	return obey_for_process(line);
}

int main(void)
{
	char line[LINE_BYTES];
	int ret;

	say("process", -getpid());
	for (;;) {
		while (!is_asked())
			write_some();
		if (!read_line(line))
			return 0;
		ret = obey(line);
		say(ret == 0 ? "ok" : "failed", ret);
	}
}
