/* SPDX-License-Identifier: MIT */
/* Finds what a thread waited for, from the kernel's functions in the stack of its wait. */
#ifndef RP_TOOL_WAIT_CAUSE_H
#define RP_TOOL_WAIT_CAUSE_H

#include <stddef.h>

/* How a thread spent a part of its time. */
enum rp_time_part {
	RP_TIME_PROGRAM,		/* on a processor, outside system calls */
	RP_TIME_SYSTEM_CALL,		/* on a processor, in a system call */
	RP_TIME_INTERRUPT,		/* its processor handled an interrupt */
	RP_TIME_RUNNABLE,		/* it could run, but had no processor */
	RP_TIME_LOCK,
	RP_TIME_BLOCK_IO,
	RP_TIME_PAGE_FAULT,		/* the kernel handled a page fault, or read the page */
	RP_TIME_NETWORK,
	RP_TIME_CALLEE,			/* another process worked for the same trace id */
	RP_TIME_SLEEP,
	RP_TIME_OTHER_WAIT,
	RP_TIME_UNEXPLAINED,		/* the trace has no record of it */
	RP_TIME_PART_COUNT,
};

/* Return: the part's name in JSON and CSV. */
const char *rp_time_part_key(enum rp_time_part part);
/* Return: the part in words, as in "20 ms waiting for a lock". */
const char *rp_time_part_text(enum rp_time_part part);

/*
 * Classify a wait. `functions` are the names of its stack, innermost first; NULL: unknown.
 * Return: RP_TIME_OTHER_WAIT if the names do not say what it waited for.
 */
enum rp_time_part rp_wait_cause_of_stack(const char *const *functions, size_t count);

/* Classify a wait without a stack by the system call in which the thread waited. */
enum rp_time_part rp_wait_cause_of_call(const char *system_call);

#endif
