/* SPDX-License-Identifier: MIT */
/*
 * usage: forks HOW WORKERS EVENTS
 *
 * A server forks workers, and each worker forks another one. Each process waits for a session,
 * writes EVENTS events with serial numbers, prints its id, and ends. HOW is one of:
 *
 *	exit	the process ends by exit()
 *	titled	the same, but the environment that the kernel shows has zeros, as that of a server
 *		that moves its environment and shows a title in its place
 *	kill	the same, but the last worker's worker is killed after it has written
 *	stay	the process ends when its standard input ends
 *	exec	the same, but the last worker's worker then executes `forks exit 0 EVENTS`
 *	again	the workers have one process id and run one after another, without workers of their
 *		own; the caller is alone in its pid namespace and may choose ids
 *	daemon	by exit(); the forking process is a daemon, whose parent and grandparent have ended
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(forks, "Test-Forks");
RP_EVENT(forks, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(process), RP_U32(serial),
	 RP_STRING(text));
RP_EVENT(forks, other, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U32(process));

static const char *how;
static int events;

#if defined(__SANITIZE_ADDRESS__)
/* A child does not free the memory of its parent's sessions. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static void write_events(void)
{
	char line[32];
	int length;

	/* A process whose session never starts must not outlive the test. */
	alarm(300);
	while (!forks_mark_enabled())
		poll(NULL, 0, 1);
	/* Let processes number their definitions differently. */
	if (getpid() % 2)
		forks_other((uint32_t)getpid());
	for (int i = 0; i < events; i++)
		forks_mark((uint32_t)getpid(), (uint32_t)i, "text");
	length = snprintf(line, sizeof(line), "%d\n", (int)getpid());
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		_exit(1);
}

static int end(char **argv)
{
	char nothing[] = "0", exits[] = "exit", byte;

	while (waitpid(-1, NULL, 0) > 0)
		;
	if (!strcmp(how, "last-kill"))
		raise(SIGKILL);
	if (!strcmp(how, "last-exec")) {
		char *arguments[] = { argv[0], exits, nothing, argv[3], NULL };

		execv(argv[0], arguments);
		return 1;
	}
	while (!strcmp(how, "stay") && read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}

static void move_environment(void)
{
	char *first = environ[0], *end = first;

	for (char **variable = environ; *variable; variable++) {
		end = *variable + strlen(*variable);
		*variable = strdup(*variable);
	}
	memset(first, 0, (size_t)(end - first));
}

/* Become a daemon. Only the daemon returns. */
static void become_daemon(void)
{
	pid_t child = fork();

	if (child != 0)
		_exit(child < 0);
	if (daemon(1, 1) != 0)
		_exit(1);
}

/* Fork until the child has the id. Another process may take it meanwhile. */
static void run_as(pid_t id)
{
	for (;;) {
		FILE *file = fopen("/proc/sys/kernel/ns_last_pid", "we");
		pid_t child;

		if (!file || fprintf(file, "%d", (int)id - 1) < 0 || fclose(file) != 0)
			_exit(1);
		child = fork();
		if (child == 0 && getpid() == id)
			write_events();
		if (child <= 0)
			exit(child < 0);
		waitpid(child, NULL, 0);
		if (child == id)
			return;
	}
}

int main(int argc, char **argv)
{
	int workers;

	if (argc != 4)
		return 2;
	how = argv[1];
	workers = atoi(argv[2]);
	events = atoi(argv[3]);
	if (!strcmp(how, "daemon")) {
		write_events();
		become_daemon();
	}
	if (!strcmp(how, "titled"))
		move_environment();
	if (!strcmp(how, "again")) {
		write_events();
		for (int i = 0; i < workers; i++)
			run_as(1000);
		return 0;
	}
	for (int i = 0; i < workers; i++) {
		if (fork() == 0) {
			if (fork() == 0 && i == workers - 1)
				how = !strcmp(how, "kill") ? "last-kill" :
				      !strcmp(how, "exec") ? "last-exec" : how;
			break;
		}
	}
	write_events();
	return end(argv);
}
