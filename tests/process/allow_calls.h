/* SPDX-License-Identifier: MIT */
/* A filter that kills the process at a system call that is not in a list. */
#ifndef PROCESS_ALLOW_CALLS_H
#define PROCESS_ALLOW_CALLS_H

#include "check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define CALLS_MAX 400

/*
 * Set the filter. `list` has the numbers of the calls, with one character between two of them.
 * `flags` are those of seccomp(2): by default, the filter is only for the calling thread.
 * Return: 0, or -errno.
 */
static inline int allow_calls(const char *list, unsigned int flags)
{
	static struct sock_filter filter[2 * CALLS_MAX + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	static const struct sock_filter yes = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	static const struct sock_filter no = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	struct sock_fprog program = { 1, filter };

	for (char *end; *list; list = *end ? end + 1 : end) {
		struct sock_filter next = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						   (uint32_t)strtoul(list, &end, 10), 0, 1);

		check(end != list && program.len < 2 * CALLS_MAX);
		filter[program.len++] = next;
		filter[program.len++] = yes;
	}
	filter[program.len++] = no;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0)
		return -errno;
	return 0;
}

#endif
