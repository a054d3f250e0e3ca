/* SPDX-License-Identifier: MIT */
/* Converts the kernel's records to events of the provider Ringpipe-Kernel. */
#ifndef RP_KERNEL_KERNEL_EVENTS_H
#define RP_KERNEL_KERNEL_EVENTS_H

#include "../../bpf/kernel.h"
#include "tools/ringpipe-kernel/inject.h"

struct rp_emit_kernel {
	struct rp_kernel_inject *inject;
	int64_t clock_offset_ns;	/* the process's CLOCK_MONOTONIC minus the kernel's */
	uint64_t lost;			/* total, as emitted */
	uint64_t mark_ns;		/* time of the last mark on the process's clock */
};

/* Return: 0; -ENOMEM. */
int rp_emit_kernel_init(struct rp_emit_kernel *emit, int64_t clock_offset_ns);
void rp_emit_kernel_fini(struct rp_emit_kernel *emit);

/* -ENOMEM. */
int rp_emit_kernel_record(struct rp_emit_kernel *emit, const struct rp_kernel_record *record);

#endif
