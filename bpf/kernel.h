/* SPDX-License-Identifier: MIT */
/* Records of the BPF programs for ringpipe-kernel, one per event. */
#ifndef RP_BPF_KERNEL_H
#define RP_BPF_KERNEL_H

#include <linux/types.h>

enum rp_kernel_kind {
	RP_KERNEL_MARK,			/* all earlier events were sent; values[0]: lost */
	RP_KERNEL_SWITCH_OUT,
	RP_KERNEL_SWITCH_IN,		/* ns off the processor */
	RP_KERNEL_PAGE_FAULT,		/* address, instruction */
	RP_KERNEL_BLOCK_REQUEST,	/* device, sector, bytes */
	RP_KERNEL_BLOCK_COMPLETE,	/* device, sector, bytes, ns */
	RP_KERNEL_SYSCALL_ENTER,	/* number */
	RP_KERNEL_SYSCALL_EXIT,		/* number (-1: its entry was not seen), result, ns */
};

/* Why a thread left its processor. */
enum rp_kernel_reason {
	RP_KERNEL_UNKNOWN,
	RP_KERNEL_PREEMPTED,
	RP_KERNEL_SLEEPING,
	RP_KERNEL_BLOCKED,		/* uninterruptible sleep */
	RP_KERNEL_STOPPED,
	RP_KERNEL_EXITED,
};

struct rp_kernel_record {
	__u64 time_ns;			/* CLOCK_MONOTONIC outside any time namespace */
	__u32 thread;			/* id in the thread's own pid namespace */
	__u16 processor;
	__u8 kind;			/* enum rp_kernel_kind */
	__u8 detail;			/* reason; bits of a fault; operation of a block request */
	__u8 failed;			/* status of a block request */
	__u8 unused[7];
	__u64 values[4];
};

#endif
