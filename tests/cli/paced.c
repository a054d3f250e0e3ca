/* SPDX-License-Identifier: MIT */
/*
 * A program that writes 10 MB of events per second, until its standard input ends. On a busy
 * machine it catches up, so the measured rate is also the later rate.
 */
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(paced, "Test-Paced");
RP_EVENT(paced, piece, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(bytes));

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int main(void)
{
	const uint64_t begun = now_ms();
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	static const char bytes[1000];
	uint64_t serial = 0;

	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (poll(&input, 1, 1) == 0) {
		for (uint64_t due = 10 * (now_ms() - begun); serial < due; serial++)
			(void)paced_piece(serial, bytes, sizeof(bytes));
	}
	return 0;
}
