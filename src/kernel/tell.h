/* SPDX-License-Identifier: MIT */
/* The kernel's records as events of the provider Ringpipe-Kernel. */
#ifndef RP_KERNEL_TELL_H
#define RP_KERNEL_TELL_H

#include "../../bpf/kernel.h"
#include "kernel/splice.h"

struct rp_tell_kernel {
	struct rp_splice *splice;
	int64_t clock_offset_ns;	/* the process's CLOCK_MONOTONIC before the kernel's */
	uint64_t lost;			/* of all, as told */
	uint64_t mark_ns;		/* of the process's clock: all before it was told */
};

/* Return: 0; -ENOMEM. */
int rp_tell_kernel_init(struct rp_tell_kernel *tell, int64_t clock_offset_ns);
void rp_tell_kernel_fini(struct rp_tell_kernel *tell);

/* -ENOMEM. */
int rp_tell_kernel_record(struct rp_tell_kernel *tell, const struct rp_kernel_record *record);

#endif
