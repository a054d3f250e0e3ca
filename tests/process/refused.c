/* SPDX-License-Identifier: MIT */
/*
 * refused CALL ERRNO PROGRAM [ARGUMENT...]: run a program in which one system call fails, as under
 * filters of containers and hardened services. `refused` alone is that program, and writes events.
 */
#include <stdlib.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "../unit/refuse.h"

#define EVENTS 1000u

RP_PROVIDER(refused, "Test-Refused");
RP_EVENT(refused, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

int main(int argc, char **argv)
{
	if (argc > 3) {
		if (!refuse_call((unsigned int)atoi(argv[1]), (unsigned int)atoi(argv[2])))
			return 77;
		execv(argv[3], argv + 3);
		return 126;
	}
	for (uint64_t serial = 0; serial < EVENTS; serial++) {
		if (refused_mark(serial) != 0)
			return 1;
	}
	return 0;
}
