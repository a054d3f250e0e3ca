/* SPDX-License-Identifier: MIT */
/*
 * A program for the commands of the diagnostics socket: prints its pid, then does what the lines of
 * its standard input say, each answered by a line, until they end.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

static volatile sig_atomic_t sigchlds;

static void on_sigchld(int number)
{
	(void)number;
	sigchlds++;
}

static int set_variable(const char *name, const char *value, void *data)
{
	(void)data;
	return (value ? setenv(name, value, 1) : unsetenv(name)) < 0 ? -errno : 0;
}

/* What a host sees that reaps whatever there is. */
static void print_children(void)
{
	pid_t pid = waitpid(-1, NULL, WNOHANG);

	printf("%d %s\n", (int)sigchlds, pid < 0 && errno == ECHILD ? "none" : "some");
}

static void obey(char *line)
{
	if (!strcmp(line, "allow")) {
		rp_host_set_environment_callback(set_variable, NULL);
		puts("ok");
	} else if (!strncmp(line, "get ", 4)) {
		puts(getenv(line + 4) ? getenv(line + 4) : "(none)");
	} else if (!strcmp(line, "children")) {
		print_children();
	} else {
		puts("what?");
	}
	fflush(stdout);
}

int main(void)
{
	char line[256];

	signal(SIGCHLD, on_sigchld);
	printf("%d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		obey(line);
	}
	return 0;
}
