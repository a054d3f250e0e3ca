/* SPDX-License-Identifier: MIT */
/* A process, stopped: its threads and their registers. */
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
	bool gone;			/* it ended while we came */
	int signal;			/* on its way to the thread when it stopped */
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
	uint64_t stopped_ns;		/* CLOCK_MONOTONIC of the first stop */
};

/*
 * Stops all threads, those that begin meanwhile included. One that does not stop in time, since the
 * kernel keeps it, stays without registers. Calls that sleep in the kernel are restarted, but for
 * those that report EINTR, as epoll_wait(2), whenever a debugger comes.
 *
 * Return: 0; -ESRCH: there is no such process; -EPERM: not ours to trace; -EBUSY: another process
 * traces it; -ENOMEM.
 */
int rp_tracee_stop(struct rp_tracee *tracee, pid_t pid);

/* Reads registers and names of all stopped threads. Return: 0; -ENOMEM. */
int rp_tracee_read(struct rp_tracee *tracee);

/* Lets it run again. Return: nanoseconds it was stopped. */
uint64_t rp_tracee_release(struct rp_tracee *tracee);

void rp_tracee_fini(struct rp_tracee *tracee);

#endif
