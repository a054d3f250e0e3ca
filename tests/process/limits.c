/* SPDX-License-Identifier: MIT */
/*
 * A process has no file descriptor, thread or page left. A call that needs such a resource reports
 * the error and everything else continues. Everything works again when the resource is available.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

RP_PROVIDER(limited, "Test-Limited");
RP_EVENT(limited, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(filling));

#define EVENTS 200u
#define NOBODY 65534

static char directory[] = "/tmp/rp-limits-XXXXXX";
static char trace[64];
static uint32_t flags = RP_SESSION_STACKS;

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);

/* LeakSanitizer uses ptrace(2), which the kernel denies to a process that changed its user. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static int start(const char *path, int fd, struct rp_session **ret_session)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Limited", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.flags = flags, .output_path = path, .output_fd = fd,
	};

	return rp_session_start(&options, ret_session);
}

static uint64_t write_some(void)
{
	static const char filling[5000];
	uint64_t written = 0;

	for (uint64_t i = 0; i < EVENTS; i++)
		written += limited_mark(i, filling, i % 10 ? i : sizeof(filling)) == 0;
	return written;
}

/* Check a session from its start to a complete file, whatever was missing meanwhile. */
static void finish(struct rp_session *session)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	uint64_t written = write_some(), read, lost;

	check(rp_session_stop(session, &stats) == 0);
	check(stats.delivered + stats.lost == EVENTS);
	check(written >= stats.delivered);
	count_trace(trace, "Test-Limited", &read, &lost);
	check(read == stats.delivered && lost == stats.lost);
}

static void everything_goes(void)
{
	struct rp_session *session;

	check(start(trace, -1, &session) == 0);
	finish(session);
}

/* Run in a child: it starts without threads of the library, and its limits end with it. */
static void in_child(void (*run)(void))
{
	pid_t child = fork();
	int status;

	check(child >= 0);
	if (child == 0) {
		alarm(PATIENCE_S);
		run();
		everything_goes();
		exit(0);
	}
	check(waitpid(child, &status, 0) == child);
	check(status == 0);
}

static struct rlimit set_limit(int which, rlim_t soft)
{
	struct rlimit before, limit;

	check(getrlimit((__rlimit_resource_t)which, &before) == 0);
	limit = before;
	limit.rlim_cur = soft;
	check(setrlimit((__rlimit_resource_t)which, &limit) == 0);
	return before;
}

static void without_a_descriptor(void)
{
	int fd = open(trace, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), taken[1024];
	struct rp_listener *listener;
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_session *session = NULL;
	unsigned int count = 0;

	check(fd >= 0);
	(void)set_limit(RLIMIT_NOFILE, 1000);
	while ((taken[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		count++;
	check(errno == EMFILE);
	check(start(trace, -1, &session) == -EMFILE && !session);
	check(start(NULL, fd, &session) == 0);
	listener = listen_to("Test-Limited");
	check(limited_mark(0, "", 0) == 0);
	check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
	check(rp_listener_stop(listener, NULL) == 0);
	check(rp_session_stop(session, NULL) == 0);
	while (count > 0)
		check(close(taken[--count]) == 0);
}

static void hear(const struct rp_listener_event *event, void *data)
{
	(void)event, (void)data;
}

/* Root has no limit on threads, so the child becomes another user. */
static void without_a_thread(void)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Limited", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
	};
	struct rp_session *session = NULL;
	struct rp_listener *listener = NULL;
	struct rlimit before;

	check(chmod(directory, 0777) == 0);
	if (geteuid() == 0)
		check(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
	before = set_limit(RLIMIT_NPROC, 0);
	check(start(trace, -1, &session) == -EAGAIN && !session);
	check(rp_listener_start(&options, NULL, NULL, &listener) == -EAGAIN && !listener);
	check(write_some() == EVENTS && !limited_mark_enabled());
	check(setrlimit(RLIMIT_NPROC, &before) == 0);
	everything_goes();
	/* The drain thread exists, so only the listener's own thread is missing. */
	(void)set_limit(RLIMIT_NPROC, 0);
	check(rp_listener_start(&options, hear, NULL, &listener) == -EAGAIN && !listener);
	check(rp_listener_start(&options, NULL, NULL, &listener) == 0);
	check(rp_listener_stop(listener, NULL) == 0);
	check(!limited_mark_enabled());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static rlim_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages;

	check(file && fscanf(file, "%lu", &pages) == 1);
	check(fclose(file) == 0);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Raise the limit from nothing to enough: the start fails for a while, then works with less. */
static void without_memory(void)
{
	rlim_t now = address_space(), step = 1 << 20, more = 0;
	struct rp_session *session = NULL;
	unsigned int refused = 0;
	struct rlimit before;
	bool whole = false;

	/* The rundown uses libelf, which does not survive a lack of memory. */
	flags |= RP_SESSION_NO_RUNDOWN;
	for (; !whole && more < (rlim_t)1 << 30; more += step) {
		struct rp_session_stats stats = RP_SESSION_STATS_INIT;
		int ret;

		before = set_limit(RLIMIT_AS, now + more);
		ret = start(trace, -1, &session);
		check(ret == 0 || ret == -ENOMEM || ret == -EAGAIN);
		if (ret == 0) {
			(void)write_some();
			ret = rp_session_stop(session, &stats);
			check(ret == stats.error && (ret == 0 || ret == -ENOMEM));
			/* Events written after a session ended by itself were not offered to it. */
			check(stats.delivered + stats.lost == EVENTS ||
			      (ret != 0 && stats.delivered + stats.lost < EVENTS));
			whole = ret == 0 && stats.lost == 0;
			session = NULL;
		}
		check(!session && !limited_mark_enabled());
		refused += ret != 0;
		check(setrlimit(RLIMIT_AS, &before) == 0);
	}
	check(whole && refused > 0);
}
#endif

int main(void)
{
	check(mkdtemp(directory));
	snprintf(trace, sizeof(trace), "%s/trace", directory);
	in_child(without_a_descriptor);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	in_child(without_memory);
#endif
	check(unlink(trace) == 0);
	in_child(without_a_thread);
	check(unlink(trace) == 0);
	check(rmdir(directory) == 0);
	return 0;
}
