/* SPDX-License-Identifier: MIT */
/*
 * The records of waits.bpf.c, calls.bpf.h and interrupts.bpf.h, and the processes that filter.bpf.h
 * lists, for the program that loads them.
 * All times are CLOCK_MONOTONIC ns.
 */
#ifndef RP_BPF_WAITS_H
#define RP_BPF_WAITS_H

#include <linux/types.h>

#define RP_WAIT_FRAMES_MAX 64
#define RP_WAIT_STACK_BYTES 16384
#define RP_WAIT_NAME_BYTES 16		/* of a thread, as the kernel limits it */
#define RP_WAIT_FILE_BYTES 256		/* of a file name, as the kernel limits it */
#define RP_WAIT_DEVICE_BYTES 32		/* of a disk, as the kernel limits it */

enum rp_wait_kind {
	RP_WAIT_ENDED,			/* a thread runs again */
	RP_WAIT_WAKING,			/* a thread makes another one runnable */
	RP_WAIT_CALL,			/* a system call returns */
	RP_WAIT_FAULT,			/* a page fault of user mode was handled */
	RP_WAIT_BLOCK,			/* a request to a block device is complete */
	RP_WAIT_INTERRUPT,		/* an interrupt was handled */
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

/* Where the threads of a process have the pointer to their ids. */
struct rp_context_place {
	__u64 module;			/* the index in a thread's DTV; 0: none is needed */
	__s64 offset;			/* from the thread pointer, or from the module's block */
};

/* The ids that a thread published; 0 in `is_valid`: none. */
struct rp_trace_context {
	__u8 trace_id[16], span_id[8];
	__u32 is_valid;
};

struct rp_call {
	__u64 number;
	__u64 arguments[6];
	__s64 result;
	char file[RP_WAIT_FILE_BYTES];	/* the last part of its name */
};

struct rp_fault {
	__u64 address;
	__u32 error;			/* bits of x86-64: 1 protection, 2 write, 16 instruction */
	__u32 is_major;			/* the page had to be read */
};

struct rp_block_request {
	__u64 sector;
	__u32 bytes;
	__u32 major, minor;		/* of the disk */
	__u32 operation;		/* REQ_OP_ of the kernel: 0 read, 1 write, 2 flush */
	__s32 status;			/* 0: no error */
	char device[RP_WAIT_DEVICE_BYTES];	/* its name; empty: unknown */
};

struct rp_interrupt {
	__u32 number;			/* of the hard interrupt, or of the softirq's kind */
	__u8 is_soft;
	__u8 is_handled;		/* false: the device of this handler caused none */
	char name[58];			/* of the handler; empty for a softirq */
};

/* The thread that used the processor before a waiting thread got it. */
struct rp_previous_thread {
	__u32 process, thread;		/* 0: the processor was idle */
	__u64 ran_ns;			/* without a break, while the other was ready to run */
	char name[RP_WAIT_NAME_BYTES];
};

/* Waits and wakings have frames of the kernel. Others end after their part if no stack follows. */
struct rp_wait_record {
	__u32 kind;
	__u32 state;			/* bits of the kernel's task state */
	__u32 process, thread;		/* whose stack follows: the sleeper's, or the waker's */
	__u32 other_thread;		/* of ENDED: the waker, or 0; of WAKING: the sleeper */
	__u32 other_process;
	__u32 processor;
	__u32 kernel_frames;		/* count */
	__u64 time_ns;			/* of the switch to the thread, the waking, or the end */
	/* When the sleeper left its processor, or the call, the fault or the interrupt began. */
	__u64 began_ns;
	__u64 woken_ns;			/* when it became runnable; 0: unknown */
	__u64 life;			/* of the process, as it may be rejected; 0: no filter */
	__u32 stack_bytes;		/* of the user's stack; 0: the registers alone are known */
	__u32 has_registers;
	struct rp_wait_registers registers;
	struct rp_trace_context context;	/* of the thread whose stack follows */
	__u32 file_bytes;		/* of call.file, with its NUL; 0: it is unset */
	union {
		struct {
			__u64 frames[RP_WAIT_FRAMES_MAX];
			struct rp_previous_thread previous;	/* of ENDED */
		};
		struct rp_call call;
		struct rp_fault fault;
		struct rp_block_request block;
		struct rp_interrupt interrupt;
	};
	__u8 stack[];			/* from the stack pointer up */
};

/* The bytes of a record without frames, a stack and the name of a file. */
#define RP_WAIT_SHORT_BYTES __builtin_offsetof(struct rp_wait_record, call.file)

_Static_assert(sizeof(struct rp_fault) <= __builtin_offsetof(struct rp_call, file) &&
	       sizeof(struct rp_block_request) <= __builtin_offsetof(struct rp_call, file) &&
	       sizeof(struct rp_interrupt) <= __builtin_offsetof(struct rp_call, file),
	       "they fit into the bytes of a short record");

/* Return: the bytes of a record that a ring contains. */
static inline __u64 rp_wait_record_bytes(const struct rp_wait_record *record)
{
	if (record->kind >= RP_WAIT_CALL && record->stack_bytes == 0)
		return RP_WAIT_SHORT_BYTES +
		       (record->kind == RP_WAIT_CALL ? record->file_bytes : 0);
	return sizeof(*record) + record->stack_bytes;
}

/* A process that runs when the recording starts. */
struct rp_wait_process {
	__u64 process;
	__u64 life;			/* as in a record */
};

/* Why there is no record. */
enum rp_wait_loss {
	RP_WAIT_LOSS_FULL,		/* no space in the ring buffer */
	RP_WAIT_LOSS_STATE,		/* no memory for the state of a thread */
	RP_WAIT_LOSS_COUNT,
};

#endif
