/* SPDX-License-Identifier: MIT */
/*
 * A program of one thread that serves its diagnostics clients itself: prints its pid, waits for
 * tools, prints "resumed", then writes an event every few milliseconds until its standard input
 * ends. `fork`: in two processes, from after the wait. `close`: without what it did not open.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
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

int main(int argc, char **argv)
{
	uint64_t serial = 0;
	char bytes[64];

	say("begins");
	rp_diagnostics_wait();
	if (argc > 1 && strcmp(argv[1], "fork") == 0 && fork() < 0)
		return 1;
	if (argc > 1 && strcmp(argv[1], "close") == 0)
		closefrom(3);
	say("resumed");
	for (;;) {
		struct pollfd ready[] = {
			{ .fd = STDIN_FILENO, .events = POLLIN },
			{ .fd = rp_diagnostics_fd(), .events = POLLIN },
		};

		poll(ready, 2, TICK_MS);
		if (ready[0].revents && read(STDIN_FILENO, bytes, sizeof(bytes)) <= 0)
			return 0;
		if (ready[1].revents && rp_diagnostics_dispatch() != 0)
			return 1;
		host_tick(serial++, "tick");
	}
}
