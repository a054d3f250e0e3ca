/* SPDX-License-Identifier: MIT */
/* rp_snapshot_on_signal(): the files appear, and the program is not disturbed. */
#include "core_support.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#define PATIENCE_SECONDS 60

RP_PROVIDER(flight, "Test-Signal");
RP_EVENT(flight, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

static char directory[] = "/tmp/rp-signal-XXXXXX";
static char path[64];
static _Atomic int handled, handled_value;

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/flight.nettrace", directory);
}

static void tear_down(void)
{
	DIR *folder = opendir(directory);
	struct dirent *entry;

	while ((entry = readdir(folder)) != NULL)
		(void)unlinkat(dirfd(folder), entry->d_name, 0);
	closedir(folder);
	cr_assert_eq(rmdir(directory), 0);
}

TestSuite(sink_signal, .init = set_up, .fini = tear_down, .timeout = 240);

static struct rp_session *record(void)
{
	struct rp_session_options options = options_for("Test-Signal");
	struct rp_session *session;

	options.flags = RP_SESSION_OVERWRITE;
	options.output_fd = -1;
	options.buffer_bytes = RP_SESSION_OVERWRITE_MIN;
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	return session;
}

static const char *file_number(unsigned int number)
{
	static char name[128];

	snprintf(name, sizeof(name), "%s/flight.%06u.nettrace", directory, number);
	return name;
}

/* Events of the test's provider in a complete trace; -1 if the trace is incomplete. */
static int64_t count_events(const char *file)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader *reader;
	int64_t count = 0;
	int ret;

	if (rp_reader_open(file, &reader) != 0)
		return -1;
	while ((ret = rp_reader_next(reader, &event)) == 1)
		count += strcmp(event.type->provider, "Test-Signal") == 0;
	rp_reader_get_stats(reader, &stats);
	rp_reader_close(reader);
	return ret == 0 && stats.ended ? count : -1;
}

static int64_t await_file(unsigned int number)
{
	time_t limit = time(NULL) + PATIENCE_SECONDS;
	int64_t count;

	while ((count = count_events(file_number(number))) < 0 && time(NULL) < limit)
		poll(NULL, 0, 5);
	return count;
}

Test(sink_signal, each_signal_makes_a_file_and_overwrites_none)
{
	struct rp_session *session = record();
	struct stat stat_of;
	FILE *mine;

	cr_assert_eq(rp_snapshot_on_signal(SIGUSR2, path), 0);
	flight_mark(1);
	raise(SIGUSR2);
	cr_assert_eq(await_file(1), 1);
	cr_assert_eq(stat(file_number(1), &stat_of), 0);
	cr_assert_eq(stat_of.st_mode & 0777, 0600u);
	mine = fopen(file_number(2), "w");
	cr_assert_not_null(mine);
	fclose(mine);
	flight_mark(2);
	raise(SIGUSR2);
	cr_assert_eq(await_file(3), 2);
	cr_assert_eq(stat(file_number(2), &stat_of), 0);
	cr_assert_eq(stat_of.st_size, 0);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(sink_signal, every_session_that_overwrites_has_its_file)
{
	struct rp_session *one = record(), *two;

	flight_mark(1);
	two = record();
	flight_mark(2);
	cr_assert_eq(rp_snapshot_on_signal(SIGUSR1, path), 0);
	raise(SIGUSR1);
	cr_assert_eq(await_file(1), 2);
	cr_assert_eq(await_file(2), 1);
	cr_assert_eq(rp_session_stop(one, NULL), 0);
	cr_assert_eq(rp_session_stop(two, NULL), 0);
}

static void on_info(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	handled_value = info->si_value.sival_int;
	handled++;
}

static void on_plain(int number)
{
	(void)number;
	handled++;
}

Test(sink_signal, handler_of_the_program_is_called_with_what_it_is_used_to)
{
	struct sigaction action = { .sa_sigaction = on_info, .sa_flags = SA_SIGINFO }, now;
	struct rp_session *session = record();

	sigaddset(&action.sa_mask, SIGTERM);
	cr_assert_eq(sigaction(SIGUSR2, &action, NULL), 0);
	cr_assert_eq(rp_snapshot_on_signal(SIGUSR2, path), 0);
	cr_assert_eq(sigaction(SIGUSR2, NULL, &now), 0);
	cr_assert_eq(now.sa_flags & ~0x04000000, SA_SIGINFO, "%x", now.sa_flags);
	cr_assert(sigismember(&now.sa_mask, SIGTERM));
	cr_assert_eq(sigqueue(getpid(), SIGUSR2, (union sigval){ .sival_int = 77 }), 0);
	cr_assert_eq(await_file(1), 0);
	cr_assert_eq(handled, 1);
	cr_assert_eq(handled_value, 77);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(sink_signal, plain_handler_is_called_too)
{
	cr_assert_neq(signal(SIGHUP, on_plain), SIG_ERR);
	cr_assert_eq(rp_snapshot_on_signal(SIGHUP, path), 0);
	raise(SIGHUP);
	cr_assert_eq(handled, 1);
}

Test(sink_signal, program_that_ignored_it_or_had_none_is_not_ended)
{
	cr_assert_neq(signal(SIGUSR1, SIG_IGN), SIG_ERR);
	cr_assert_eq(rp_snapshot_on_signal(SIGUSR1, path), 0);
	raise(SIGUSR1);
}

Test(sink_signal, what_cannot_be_is_refused_and_changes_nothing)
{
	static const int wrong[] = { 0, -1, NSIG, SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL,
				     SIGABRT, SIGTRAP, SIGSYS };
	struct sigaction once = { .sa_handler = on_plain, .sa_flags = (int)SA_RESETHAND };
	struct sigaction before, now;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert_eq(rp_snapshot_on_signal(wrong[i], path), -EINVAL, "%d", wrong[i]);
	cr_assert_eq(rp_snapshot_on_signal(SIGUSR1, NULL), -EINVAL);
	cr_assert_eq(rp_snapshot_on_signal(SIGUSR1, ""), -EINVAL);
	cr_assert_eq(sigaction(SIGUSR1, &once, NULL), 0);
	cr_assert_eq(rp_snapshot_on_signal(SIGUSR1, path), -EBUSY);
	cr_assert_eq(sigaction(SIGUSR1, NULL, &now), 0);
	cr_assert_eq(now.sa_handler, on_plain);
	cr_assert_eq(rp_snapshot_on_signal(SIGUSR2, path), 0);
	/* nohup(1) sets SIGHUP to be ignored. */
	cr_assert_eq(sigaction(SIGHUP, NULL, &before), 0);
	cr_assert_eq(rp_snapshot_on_signal(SIGHUP, path), -EBUSY);
	cr_assert_eq(sigaction(SIGHUP, NULL, &now), 0);
	cr_assert_eq(now.sa_handler, before.sa_handler);
}

/* In a child the signal has the action that the program had set before. */
Test(sink_signal, forked_child_has_its_signal_back)
{
	int status;
	pid_t child;

	cr_assert_eq(rp_snapshot_on_signal(SIGUSR2, path), 0);
	child = fork();
	if (child == 0) {
		raise(SIGUSR2);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2, "%x", (unsigned int)status);
}

static _Atomic bool quiet;

/* Most of the time holds the allocator's and stdio's locks, or writes an event. */
static void *work(void *data)
{
	FILE *null = fopen("/dev/null", "w");

	for (uint64_t serial = 0; !quiet; serial++) {
		free(malloc(serial % 5000));
		fprintf(null, "%lu\n", serial);
		flight_mark(serial);
	}
	fclose(null);
	return data;
}

Test(sink_signal, signals_may_come_at_any_time)
{
	struct rp_session *session = record();
	pthread_t threads[3];

	cr_assert_eq(rp_snapshot_on_signal(SIGUSR2, path), 0);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, work, NULL), 0);
	for (int i = 0; i < 3000; i++)
		cr_assert_eq(pthread_kill(threads[i % 3], SIGUSR2), 0);
	quiet = true;
	for (int i = 0; i < 3; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_assert_geq(await_file(1), 0);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}
