/* SPDX-License-Identifier: MIT */
/*
 * A program with one thread that serves its diagnostics clients itself. It prints its pid, waits
 * for tools, prints "resumed", then writes an event every few milliseconds until its standard input
 * ends. `fork`: forks after the wait. `close`: closes descriptors that it did not open. `replace
 * KIND`: replaces the library's epoll set or timer, `[eventpoll]` or `[timerfd]`, by an expired
 * timer of its own; exits with 1 if the library modified that timer.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define TICK_MS 5

RP_DIAGNOSTICS(RP_DIAGNOSTICS_WAIT | RP_DIAGNOSTICS_POLL);

RP_PROVIDER(host, "Ipc-Host");
RP_EVENT(host, tick, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_STRING(text));

static void say(const char *text)
{
	printf("%d %s\n", getpid(), text);
	fflush(stdout);
}

static int find(const char *kind)
{
	char path[64], link[64];

	for (int fd = 3; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		memset(link, 0, sizeof(link));
		if (readlink(path, link, sizeof(link) - 1) > 0 && strstr(link, kind))
			return fd;
	}
	return -1;
}

static int replace(const char *kind)
{
	const struct itimerspec past = { .it_value.tv_nsec = 1 };
	int number = find(kind), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

	if (number < 0 || timerfd_settime(timer, TFD_TIMER_ABSTIME, &past, NULL) != 0 ||
	    dup2(timer, number) != number)
		exit(2);
	close(timer);
	return number;
}

static int is_ripe(int timer)
{
	uint64_t times;

	return read(timer, &times, sizeof(times)) == sizeof(times);
}

int main(int argc, char **argv)
{
	uint64_t serial = 0;
	char bytes[64];
	int own = -1;

	say("begins");
	rp_diagnostics_wait();
	if (argc > 1 && strcmp(argv[1], "fork") == 0 && fork() < 0)
		return 1;
	if (argc > 1 && strcmp(argv[1], "close") == 0)
		closefrom(3);
	if (argc > 2 && strcmp(argv[1], "replace") == 0)
		own = replace(argv[2]);
	say("resumed");
	for (;;) {
		struct pollfd ready[] = {
			{ .fd = STDIN_FILENO, .events = POLLIN },
			{ .fd = rp_diagnostics_fd(), .events = POLLIN },
		};

		poll(ready, 2, TICK_MS);
		if (ready[0].revents && read(STDIN_FILENO, bytes, sizeof(bytes)) <= 0)
			return own >= 0 && !is_ripe(own);
		if (ready[1].revents && rp_diagnostics_dispatch() != 0)
			return 1;
		host_tick(serial++, "tick");
	}
}
