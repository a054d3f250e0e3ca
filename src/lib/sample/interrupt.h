/* SPDX-License-Identifier: MIT */
/* The signal that interrupts running threads. Its handler takes a sample. */
#ifndef RP_SAMPLE_INTERRUPT_H
#define RP_SAMPLE_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/event.h>

#include "sample/threads.h"
#include "unwind/unwind.h"

/* Payload of a ThreadSample event: the state of the thread, in the terms of the .NET runtime. */
enum rp_sample_type {
	RP_SAMPLE_EXTERNAL = 1,	/* outside the program's code: asleep */
	RP_SAMPLE_MANAGED = 2,	/* running; native code too, or clients would hide it */
};

/* The event of all samples; set before the first timer starts. */
extern struct rp_event *rp_sample_event;

/* Write a sample on behalf of `thread`. Context: any, signal handlers included. */
void rp_sample_write(uint32_t thread, enum rp_sample_type type, const uint64_t *frames,
		     uint32_t frame_count);

/*
 * Install the handler on a real-time signal with the default disposition. The handler stays until
 * the process ends or calls execve(2). The default disposition would kill a thread that receives
 * the signal late: the signal may be pending, a tracer may hold it back although it is not pending
 * any more (ptrace(2), signal-delivery-stop), and a filter of system calls may prevent that a timer
 * is deleted.
 *
 * Return: 0, also if the library has such a signal already; -EBUSY: no signal is free.
 */
int rp_sample_signal_take(void);

/* While no timer exists: if the program has replaced the handler, the next take is of another. */
void rp_sample_signal_check(void);

/*
 * Sample the thread each time it has run for `interval_ns`.
 * Return: 0; -EPERM: the thread blocks the signal; or -errno of timer_create(2).
 */
int rp_sample_timer_start(struct rp_sampled *thread, uint64_t interval_ns);
void rp_sample_timer_stop(struct rp_sampled *thread);

#endif
