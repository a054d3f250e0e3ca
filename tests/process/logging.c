/* SPDX-License-Identifier: MIT */
/*
 * A child that was forked while another thread was in localtime(3) starts and stops a session. libc
 * does not release that function's lock in the child, nor the lock of gmtime_r(3).
 */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>

RP_PROVIDER(logging, "Test-Logging");
RP_EVENT(logging, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

#define FORKS 100

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);

/* A child does not free the memory of its parent's sessions. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static int is_over;
static uint64_t lines;

static void *log_lines(void *data)
{
	time_t now = time(NULL);
	struct tm tm;

	(void)data;
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		check(localtime_r(&now, &tm));
		__atomic_fetch_add(&lines, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* An alarm ends a child that hangs. */
static void trace_in_child(void)
{
	struct rp_session *session;

	alarm(PATIENCE_S);
	session = session_to("/dev/null", "Test-Logging", RP_SESSION_BUFFER_MIN);
	logging_mark(1);
	check(rp_session_stop(session, NULL) == 0);
	_exit(0);
}

int main(void)
{
	pthread_t thread;

	check(pthread_create(&thread, NULL, log_lines, NULL) == 0);
	for (int i = 0; i < FORKS; i++) {
		uint64_t seen = __atomic_load_n(&lines, __ATOMIC_RELAXED);
		int status;
		pid_t child;

		wait_until(__atomic_load_n(&lines, __ATOMIC_RELAXED) != seen);
		child = fork();
		check(child >= 0);
		if (child == 0)
			trace_in_child();
		check(waitpid(child, &status, 0) == child);
		check(status == 0);
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	check(pthread_join(thread, NULL) == 0);
	return 0;
}
