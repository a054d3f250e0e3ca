/* SPDX-License-Identifier: MIT */
/* The records of an interval, which thread_time.c collects and thread_division.c divides. */
#ifndef RP_TOOL_THREAD_TIME_PARTS_H
#define RP_TOOL_THREAD_TIME_PARTS_H

#include "tools/analysis/thread_time.h"

enum record_kind {
	KIND_WAIT, KIND_CALL, KIND_INTERRUPT, KIND_FUTEX, KIND_BLOCK, KIND_CALLEE, KIND_FAULT,
	KIND_PREVIOUS,			/* another thread used the processor of a waiting thread */
	KIND_LOCK,			/* of ringpipe-locks */
	KIND_COUNT,
};

#define RP_TIME_PROVIDER "Ringpipe-Machine"

/* Ids of its events. */
enum rp_time_id {
	RP_TIME_ID_WAIT = 1, RP_TIME_ID_SYSCALL = 3, RP_TIME_ID_FUTEX = 4, RP_TIME_ID_FAULT = 5,
	RP_TIME_ID_BLOCK = 6, RP_TIME_ID_LOSS = 7, RP_TIME_ID_INTERRUPT = 11,
	RP_TIME_ID_GROUPS = 12,
};

_Static_assert(KIND_COUNT == RP_TIME_KINDS, "the arrays have an item for each kind");

struct rp_time_record {
	enum record_kind kind;
	union {
		enum rp_time_part part;	/* of a WAIT */
		uint32_t bytes;		/* of a BLOCK */
	};
	int64_t from_ns, to_ns;
	int64_t runnable_ns;		/* of a WAIT: when its thread was woken */
	const char *detail;
	const char *function;		/* of a WAIT or FAULT: see struct rp_time_piece */
	const char *file;		/* of a CALL; of a BLOCK: its device */
	union {
		uint64_t lock;		/* of a FUTEX or LOCK */
		uint64_t sector;	/* of a BLOCK */
	};
	/*
	 * WAIT, FUTEX: the thread that ended it. PREVIOUS: that ran. CALLEE: the process. LOCK: the
	 * thread that held it when the wait began.
	 */
	uint64_t waker_process, waker_thread;
};

#endif
