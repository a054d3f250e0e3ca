/* SPDX-License-Identifier: MIT */
/*
 * Writes events on request: for each line of standard input, a number, it writes that many events
 * with serial numbers, and then prints the line. It ends with its standard input.
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(written, "Test-Written");
RP_EVENT(written, order, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_STRING(text));

int main(void)
{
	uint64_t serial = 0, count;

	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (scanf("%" SCNu64, &count) == 1) {
		for (const uint64_t end = serial + count; serial < end; serial++)
			(void)written_order(serial, "some text that takes space in the buffer");
		printf("%" PRIu64 "\n", count);
		fflush(stdout);
	}
	return 0;
}
