/* SPDX-License-Identifier: MIT */
/*
 * The trace of a process that ends without exit(3) contains all events from before its last
 * rp_sessions_flush(). The program starts itself once for each case and reads the traces.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

RP_PROVIDER(flushing, "Test-Flushing");
RP_EVENT(flushing, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

#define EVENTS 1000u
#define HANDLER_STATUS 42

static void write_marks(void)
{
	for (uint64_t serial = 0; serial < EVENTS; serial++)
		check(flushing_mark(serial) == 0);
}

static void end_by_exit(void)
{
	write_marks();
	check(rp_sessions_flush(PATIENCE_S * 1000) == 0);
	_exit(0);
}

static void end_by_exec(void)
{
	write_marks();
	check(rp_sessions_flush(PATIENCE_S * 1000) == 0);
	execl("/bin/true", "true", NULL);
	_exit(1);
}

/* This handler runs on the alternate stack, because the main stack may be full. */
static void flush_in_handler(int number)
{
	(void)number;
	_exit(rp_sessions_flush(PATIENCE_S * 1000) == 0 ? HANDLER_STATUS : 1);
}

static void *raise_fault(void *data)
{
	static char stack[1 << 16];
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };

	(void)data;
	check(sigaltstack(&alternate, NULL) == 0);
	write_marks();
	raise(SIGSEGV);
	return NULL;
}

static void end_by_fault(void)
{
	struct sigaction action = { .sa_handler = flush_in_handler, .sa_flags = SA_ONSTACK };
	pthread_t thread;

	check(sigaction(SIGSEGV, &action, NULL) == 0);
	check(pthread_create(&thread, NULL, raise_fault, NULL) == 0);
	pthread_join(thread, NULL);
	_exit(1);
}

static const struct {
	const char *name;
	void (*run)(void);
	int status;
} cases[] = {
	{ "_exit", end_by_exit, 0 },
	{ "execve", end_by_exec, 0 },
	{ "SIGSEGV", end_by_fault, HANDLER_STATUS },
};

/* Check that the file lacks its end but is otherwise complete. */
static void check_trace(const char *path)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	uint64_t serial, next = 0;

	check(rp_reader_open(path, &reader) == 0);
	while (rp_reader_next(reader, &event) == 1) {
		if (strcmp(event.type->provider, "Test-Flushing") != 0)
			continue;
		memcpy(&serial, event.payload, sizeof(serial));
		check(serial == next++);
	}
	rp_reader_close(reader);
	check(next == EVENTS);
}

int main(int argc, char **argv)
{
	char path[] = "/tmp/rp-flushing-XXXXXX";
	int fd, status;
	pid_t child;

	if (argc == 3) {
		(void)session_to(argv[2], "Test-Flushing", RP_SESSION_BUFFER_MIN);
		cases[atoi(argv[1])].run();
	}
	fd = mkstemp(path);
	check(fd >= 0);
	close(fd);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char number[2] = { (char)('0' + i), '\0' };

		printf("%s\n", cases[i].name);
		fflush(stdout);
		child = fork();
		check(child >= 0);
		if (child == 0) {
			execl(argv[0], argv[0], number, path, NULL);
			_exit(127);
		}
		check(waitpid(child, &status, 0) == child);
		check(WIFEXITED(status) && WEXITSTATUS(status) == cases[i].status);
		check_trace(path);
	}
	check(unlink(path) == 0);
	return 0;
}
