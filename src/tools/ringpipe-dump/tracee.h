/* SPDX-License-Identifier: MIT */
/* A stopped process: its threads and their registers. */
#ifndef RP_DUMP_TRACEE_H
#define RP_DUMP_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/procfs.h>
#include <sys/types.h>

#define RP_THREAD_NAME_BYTES 16u

struct rp_tracee_thread {
	pid_t tid;
	bool stopped;
	bool gone;			/* ended before it was stopped */
	int signal;			/* to deliver to the thread on release */
	char name[RP_THREAD_NAME_BYTES];
	struct elf_prstatus status;	/* integer registers */
	elf_fpregset_t fp;
	bool has_fp;
	void *xstate;			/* vector registers as the processor saves them, or NULL */
	size_t xstate_bytes;
};

struct rp_tracee {
	pid_t pid;
	struct rp_tracee_thread *threads;	/* the main thread first */
	size_t count;
	size_t capacity;
	uint64_t stopped_ns;		/* CLOCK_MONOTONIC at the first stop */
};

/*
 * Stop all threads, including those that start meanwhile. A thread that the kernel does not stop in
 * time stays without registers. Blocked system calls are restarted, except those that return EINTR
 * after any stop by a debugger, such as epoll_wait(2).
 *
 * Return: 0; -ESRCH if the process does not exist; -EPERM: no permission to trace it; -EBUSY if
 * another process traces it; -ENOMEM.
 */
int rp_tracee_stop(struct rp_tracee *tracee, pid_t pid);

/* Reads registers and names of all stopped threads. Return: 0; -ENOMEM. */
int rp_tracee_read(struct rp_tracee *tracee);

/* Let the process run again. Return: nanoseconds for which it was stopped. */
uint64_t rp_tracee_release(struct rp_tracee *tracee);

void rp_tracee_fini(struct rp_tracee *tracee);

#endif
