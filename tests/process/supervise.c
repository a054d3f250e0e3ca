/* SPDX-License-Identifier: MIT */
/*
 * supervise [-r PHASE CALL ERRNO] REPORT PROGRAM [ARGUMENT…]: run a program and record each of its
 * system calls by phase, as lines `PHASE CALL` of numbers in REPORT. The exit status is the
 * program's, or 128 plus its signal.
 *
 * The program begins a phase by prctl(PHASE_MAGIC + number); phase 0 begins with execve(2). The
 * calls of a process that executes another program belong to phase PHASE_HELPER. With -r, each CALL
 * from that phase on fails with ERRNO and has no effect.
 *
 * The kernel notifies this process of each call (SECCOMP_RET_USER_NOTIF). This method works across
 * forks and together with ptrace(2), which the program that writes dumps uses itself. The report
 * omits the calls by which a test communicates with the program: read(0), write(1), write(2),
 * pselect6, waitid and the prctl above.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "phases.h"

#define CALLS 1024u
#define HELPERS 64u
#define STACK_BYTES 65536u

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static struct {
	bool seen[PHASES][CALLS];
	uint32_t phase;
	uint32_t helpers[HELPERS];	/* processes that executed another program */
	uint32_t helper_count;
	bool executed;
	int refused_from, refused_call, refused_error;
} record = { .refused_from = -1 };

struct start {
	char **arguments;
	int listener;		/* 0: there is none yet */
};

static int install(void)
{
	static struct sock_filter notify[] = {
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	static struct sock_fprog program = { 1, notify };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER |
			    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
}

/* The child shares descriptors and memory with its parent until it executes the program. */
static int child(void *data)
{
	struct start *start = data;
	int listener = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 ? install() : -1;

	__atomic_store_n(&start->listener, listener, __ATOMIC_RELEASE);
	if (listener < 0)
		return SKIPPED_STATUS;
	execv(start->arguments[0], start->arguments);
	return 126;
}

static bool is_helper(uint32_t thread)
{
	for (uint32_t i = 0; i < record.helper_count; i++) {
		if (record.helpers[i] == thread)
			return true;
	}
	return false;
}

static bool is_conversation(const struct seccomp_data *data)
{
	return (data->nr == SYS_read && data->args[0] == STDIN_FILENO) ||
	       (data->nr == SYS_write && (data->args[0] == STDOUT_FILENO ||
					  data->args[0] == STDERR_FILENO)) ||
	       data->nr == SYS_pselect6 || data->nr == SYS_waitid;
}

static bool is_phase(const struct seccomp_data *data)
{
	return data->nr == SYS_prctl && data->args[0] >= PHASE_MAGIC &&
	       data->args[0] < PHASE_MAGIC + PHASES;
}

/* Decide about a call. Return: 0, or its error; sets `ret_passes` if the call may run. */
static int judge(const struct seccomp_notif *call, bool *ret_passes)
{
	const struct seccomp_data *data = &call->data;
	bool helper = is_helper(call->pid);

	*ret_passes = true;
	if (is_phase(data)) {
		*ret_passes = false;
		record.phase = (uint32_t)(data->args[0] - PHASE_MAGIC);
		return 0;
	}
	if (is_conversation(data) || data->nr < 0 || (uint32_t)data->nr >= CALLS)
		return 0;
	record.seen[helper ? PHASE_HELPER : record.phase][data->nr] = true;
	if (data->nr == SYS_execve) {
		if (record.executed && record.helper_count < HELPERS)
			record.helpers[record.helper_count++] = call->pid;
		record.executed = true;
	}
	if (helper || record.refused_from < 0 || (int)record.phase < record.refused_from ||
	    data->nr != record.refused_call)
		return 0;
	*ret_passes = false;
	return -record.refused_error;
}

/* Return: false if the program has ended. */
static bool answer_one(int listener)
{
	struct pollfd waiting = { .fd = listener, .events = POLLIN };
	struct seccomp_notif call = { 0 };
	struct seccomp_notif_resp answer = { 0 };
	bool passes;

	if (poll(&waiting, 1, -1) < 0)
		return errno == EINTR;
	if (!(waiting.revents & POLLIN))
		return false;
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0)
		return errno == EINTR || errno == ENOENT;
	answer.id = call.id;
	answer.error = judge(&call, &passes);
	answer.flags = passes ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
	/* ENOENT: the calling thread was killed meanwhile. */
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 || errno == ENOENT;
}

static bool write_report(const char *path)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return false;
	for (uint32_t phase = 0; phase < PHASES; phase++) {
		for (uint32_t call = 0; call < CALLS; call++) {
			if (record.seen[phase][call])
				fprintf(file, "%u %u\n", phase, call);
		}
	}
	return fclose(file) == 0;
}

int main(int argc, char **argv)
{
	static struct start start;
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = 0;
	pid_t pid;

	if (argc > 5 && strcmp(argv[1], "-r") == 0) {
		record.refused_from = atoi(argv[2]);
		record.refused_call = atoi(argv[3]);
		record.refused_error = atoi(argv[4]);
		argv += 4;
		argc -= 4;
	}
	if (argc < 3 || stack == MAP_FAILED)
		return 2;
	start.arguments = argv + 2;
	pid = clone(child, stack + STACK_BYTES, CLONE_FILES | CLONE_VM | SIGCHLD, &start);
	if (pid < 0)
		return 2;
	while (__atomic_load_n(&start.listener, __ATOMIC_ACQUIRE) == 0)
		sched_yield();
	while (start.listener > 0 && answer_one(start.listener))
		;
	if (waitpid(pid, &status, 0) != pid || !write_report(argv[1]))
		return 2;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
