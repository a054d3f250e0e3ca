/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(hello, "Hello");
RP_EVENT(hello, greeting, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(n), RP_STRING(whom));

/* The argument is the number of events; without it, the program does not end. */
int main(int argc, char **argv)
{
	for (uint32_t n = 0; argc < 2 || n < strtoul(argv[1], NULL, 10); n++) {
		hello_greeting(n, "world");
		usleep(100 * 1000);
	}
}
