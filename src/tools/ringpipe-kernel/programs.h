/* SPDX-License-Identifier: MIT */
/* The BPF programs: loaded, attached, their ring buffer emptied. */
#ifndef RP_KERNEL_PROGRAMS_H
#define RP_KERNEL_PROGRAMS_H

#include <stdint.h>
#include <sys/types.h>

#include "../../bpf/kernel.h"

/* Groups of events that can be asked for one by one; bits. */
enum rp_probe_group {
	RP_PROBE_SCHED = 1,
	RP_PROBE_FAULTS = 2,
	RP_PROBE_BLOCK = 4,
	RP_PROBE_SYSCALLS = 8,
	RP_PROBE_ALL = 15,
};

struct rp_probe;

/* Return: 0; anything else ends the call that led here, and is what it returns. */
typedef int (*rp_probe_record)(void *user, const struct rp_kernel_record *record);

/*
 * Attaches to a process. Groups that this kernel does not have or does not take are left out, each
 * said once on stderr; `ring_bytes` is rounded down to a power of two.
 *
 * Return: 0; -errno with nothing attached, said on stderr.
 */
int rp_probe_start(pid_t pid, unsigned int groups, size_t ring_bytes, rp_probe_record record,
		   void *user, struct rp_probe **ret_probe);
void rp_probe_destroy(struct rp_probe *probe);

/* Readable when it is time to call rp_probe_drain(), at the latest. */
int rp_probe_fd(const struct rp_probe *probe);

/*
 * Hands on what there is, up to a mark whose time is not before this call. Return: 0 or -errno.
 */
int rp_probe_drain(struct rp_probe *probe);

/* No more records after those there are. */
void rp_probe_stop(struct rp_probe *probe);

#endif
