/* SPDX-License-Identifier: MIT */
/* The records of waits.bpf.c, for the program that loads it. All times are CLOCK_MONOTONIC ns. */
#ifndef RP_BPF_WAITS_H
#define RP_BPF_WAITS_H

#include <linux/types.h>

#define RP_WAIT_FRAMES_MAX 64
#define RP_WAIT_STACK_BYTES 16384

enum rp_wait_kind {
	RP_WAIT_ENDED,			/* a thread runs again */
	RP_WAIT_WAKING,			/* a thread makes another one runnable */
};

/* How the thread left its processor. */
enum rp_wait_state {
	RP_WAIT_PREEMPTED = 0,
	RP_WAIT_SLEEPS = 1,		/* interruptible */
	RP_WAIT_UNINTERRUPTIBLE = 2,	/* usually for a disk */
};

#define RP_WAIT_STATE_MASK 3u

/* User registers, as struct pt_regs of x86-64 has them. */
struct rp_wait_registers {
	__u64 bx, bp, r12, r13, r14, r15, ip, sp;
};

struct rp_wait_record {
	__u32 kind;
	__u32 state;			/* bits of the kernel's task state */
	__u32 process, thread;		/* whose stack follows: the sleeper's, or the waker's */
	__u32 other_thread;		/* of ENDED: the waker, or 0; of WAKING: the sleeper */
	__u32 other_process;
	__u32 processor;
	__u32 kernel_frames;		/* count */
	__u64 time_ns;			/* of the switch to the thread, or of the waking */
	__u64 began_ns;			/* when the sleeper left its processor */
	__u64 woken_ns;			/* when it became runnable; 0: unknown */
	__u32 stack_bytes;		/* of the user's stack; 0: the registers alone are known */
	__u32 has_registers;
	struct rp_wait_registers registers;
	__u64 frames[RP_WAIT_FRAMES_MAX];
	__u8 stack[];			/* from the stack pointer up */
};

/* Waits and wakings without a record. */
enum rp_wait_loss {
	RP_WAIT_LOSS_FULL,		/* no space in the ring buffer */
	RP_WAIT_LOSS_STATE,		/* no memory for the state of a thread */
	RP_WAIT_LOSS_COUNT,
};

#endif
