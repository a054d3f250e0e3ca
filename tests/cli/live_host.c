/* SPDX-License-Identifier: MIT */
/* A program that writes one event for each byte of its standard input, and nothing by itself. */
#include <stdio.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(asked, "Test-Asked");
RP_EVENT(asked, answer, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

int main(void)
{
	/* No other eight bytes of a trace are these. */
	uint64_t serial = 0x1d5a9c3e7b24f600u;
	char byte;

	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) == 1)
		(void)asked_answer(serial++);
	return 0;
}
