/* SPDX-License-Identifier: MIT */
/* Writes a hundred events, says so, and waits to be killed, or to be told to end. */
#include <stdio.h>
#include <stdlib.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(host, "Test-Host");
RP_EVENT(host, mark, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U32(number), RP_STRING(text));

int main(void)
{
	for (uint32_t i = 0; i < 100; i++) {
		if (host_mark(i, "one of a hundred") != 0)
			abort();
	}
	puts("written");
	fflush(stdout);
	return getchar() == EOF;
}
