/* SPDX-License-Identifier: MIT */
/* Loads and attaches the BPF programs, and drains their ring buffer. */
#ifndef RP_KERNEL_PROGRAMS_H
#define RP_KERNEL_PROGRAMS_H

#include <stdint.h>
#include <sys/types.h>

#include "../../bpf/kernel.h"

/* Groups of events that can be requested separately; bits. */
enum rp_probe_group {
	RP_PROBE_SCHED = 1,
	RP_PROBE_FAULTS = 2,
	RP_PROBE_BLOCK = 4,
	RP_PROBE_SYSCALLS = 8,
	RP_PROBE_ALL = 15,
};

struct rp_probe;

/* Return: 0; another value ends the current call, which returns that value. */
typedef int (*rp_probe_record)(void *user, const struct rp_kernel_record *record);

/*
 * Attach to a process. Groups that this kernel lacks or rejects are left out, with one message each
 * on stderr. `ring_bytes` is rounded down to a power of two.
 *
 * Return: 0; -errno with nothing attached, after an error line on stderr.
 */
int rp_probe_start(pid_t pid, unsigned int groups, size_t ring_bytes, rp_probe_record record,
		   void *user, struct rp_probe **ret_probe);
void rp_probe_destroy(struct rp_probe *probe);

/* Becomes readable no later than when rp_probe_drain() must be called. */
int rp_probe_fd(const struct rp_probe *probe);

/* Deliver records up to a mark whose time is not before this call. Return: 0 or -errno. */
int rp_probe_drain(struct rp_probe *probe);

/* Detach the programs; records already in the ring remain. */
void rp_probe_stop(struct rp_probe *probe);

#endif
