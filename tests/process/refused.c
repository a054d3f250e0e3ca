/* SPDX-License-Identifier: MIT */
/*
 * refused CALL ERRNO PROGRAM [ARGUMENT...]: runs a program whose system calls of one number fail,
 * as containers and hardened services have it. `refused` alone: writes events, and is that program.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define EVENTS 1000u

RP_PROVIDER(refused, "Test-Refused");
RP_EVENT(refused, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

static int refuse(unsigned int call, unsigned int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
		return -errno;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 3) {
		if (refuse((unsigned int)atoi(argv[1]), (unsigned int)atoi(argv[2])) != 0)
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
