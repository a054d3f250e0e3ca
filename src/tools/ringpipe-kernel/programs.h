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
 * Load the programs of `groups` for the events of one process, and attach them. The function leaves
 * out a group that this kernel lacks or rejects, and prints one line about it on stderr. The size
 * of the ring is `ring_bytes`, rounded down to a power of two, at least 64 KB and at most 256 MB.
 * rp_probe_drain() calls `record` for each record.
 *
 * Return: 0; -ENODATA: no group is left; other -errno, after an error line on stderr. On failure
 * nothing is attached.
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
