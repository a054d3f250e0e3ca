/* SPDX-License-Identifier: MIT */
/*
 * A process changes while its threads write events: by vfork(2) and exec(2), by clone(2) without
 * libc, or by setuid(2) and chroot(2).
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

RP_PROVIDER(changing, "Test-Changing");
RP_EVENT(changing, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(filling));

#define NOBODY 65534
#define DESCRIPTORS_MAX 1024
#define ROUNDS 20

static char directory[] = "/tmp/rp-changing-XXXXXX";
static char trace[64];
static const char *found = trace;	/* path of the trace after a change */

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);

/* LeakSanitizer uses ptrace(2), which the kernel denies to a process that changed its user. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static bool over;
static uint64_t offered;

/* Write events; every tenth uses the fallback. */
static void *keep_writing(void *data)
{
	static const char filling[5000];

	(void)data;
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		(void)changing_mark(offered, filling, offered % 10 ? 10 : sizeof(filling));
		if (++offered % 64 == 0)
			sched_yield();
	}
	return NULL;
}

/* Check that every event that another thread writes during `change` is delivered or counted. */
static void while_writing(void (*change)(void))
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session = session_to(trace, "Test-Changing", 0);
	uint64_t read, lost;
	pthread_t writer;

	over = false;
	offered = 0;
	check(pthread_create(&writer, NULL, keep_writing, NULL) == 0);
	change();
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	check(pthread_join(writer, NULL) == 0);
	check(rp_session_stop(session, &stats) == 0);
	check(stats.delivered + stats.lost == offered && stats.lost_by[RP_LOSS_DAMAGED] == 0);
	count_trace(found, "Test-Changing", &read, &lost);
	check(read == stats.delivered && lost == stats.lost);
}

static void expect_child(pid_t child)
{
	int status;

	check(child > 0);
	check(waitpid(child, &status, 0) == child);
	check(status == 0);
}

static unsigned int inherited(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
		int flags = fcntl(fd, F_GETFD);

		count += flags >= 0 && !(flags & FD_CLOEXEC);
	}
	return count;
}

static unsigned int open_descriptors(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static char inherited_text[16];

/* The new program counts the descriptors that it inherits; see main(). */
static void exec_counting(void)
{
	char name[] = "changing", count[] = "count";
	char *arguments[] = { name, count, inherited_text, NULL };
	char off[] = "RINGPIPE_DIAGNOSTICS=0", *environment[] = { off, NULL };

	execve("/proc/self/exe", arguments, environment);
	_exit(127);
}

static void exec_in_vfork(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		pid_t child = vfork();

		if (child == 0)
			exec_counting();
		expect_child(child);
	}
}

/* The process has a session, a writer, and all threads of the library. */
static void program_finds_no_descriptor_of_its_predecessor(void)
{
	pid_t child = fork();

	if (child == 0) {
		struct rp_session *session = session_to("/dev/null", "*", RP_SESSION_BUFFER_MIN);
		pthread_t writer;

		alarm(PATIENCE_S);
		check(session && listen_to("*"));
		check(pthread_create(&writer, NULL, keep_writing, NULL) == 0);
		exec_counting();
	}
	expect_child(child);
}

/* The child runs no fork handler of the library, and lacks the parent's rings and slots. */
static void write_in_child_of_clone(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (child == 0) {
			for (uint64_t serial = 0; serial < 1000; serial++) {
				if (changing_mark(serial, directory, serial % 10) != 0)
					_exit(1);
			}
			_exit(0);
		}
		expect_child(child);
	}
}

static void become_nobody(void)
{
	check(chown(directory, NOBODY, NOBODY) == 0);
	/* No other user may read the file. */
	check(chown(trace, NOBODY, NOBODY) == 0);
	check(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

static void change_root(void)
{
	check(chdir(directory) == 0);
	check(chroot(".") == 0);
	found = "/trace";
}

static void change_nothing(void)
{
}

/* Run sessions that begin before and after the child gives up root. */
static void change_in_child(void (*change)(void))
{
	pid_t child = fork();

	if (child == 0) {
		char after[64];

		alarm(PATIENCE_S);
		while_writing(change);
		snprintf(after, sizeof(after), "%s-after", found);
		memcpy(trace, after, sizeof(trace));
		found = trace;
		while_writing(change_nothing);
		check(unlink(trace) == 0);
		exit(0);
	}
	expect_child(child);
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return open_descriptors() != (unsigned int)atoi(argv[2]);
	check(mkdtemp(directory));
	snprintf(trace, sizeof(trace), "%s/trace", directory);
	snprintf(inherited_text, sizeof(inherited_text), "%u", inherited());
	while_writing(exec_in_vfork);
	while_writing(write_in_child_of_clone);
	program_finds_no_descriptor_of_its_predecessor();
	if (geteuid() == 0) {
		change_in_child(become_nobody);
		change_in_child(change_root);
	}
	check(unlink(trace) == 0);
	check(rmdir(directory) == 0);
	return 0;
}
