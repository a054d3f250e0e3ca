/* SPDX-License-Identifier: MIT */
/*
 * A program to trace: prints its pid, then writes an event every few milliseconds until its
 * standard input ends. `tick` carries a serial number.
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define TICK_MS 5

RP_PROVIDER(host, "Ipc-Host");
RP_EVENT(host, tick, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_STRING(text));

int main(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t serial = 0;
	char bytes[64];

	printf("%d\n", getpid());
	fflush(stdout);
	for (;;) {
		if (poll(&input, 1, TICK_MS) > 0 && read(STDIN_FILENO, bytes, sizeof(bytes)) <= 0)
			return 0;
		host_tick(serial++, "tick");
	}
}
