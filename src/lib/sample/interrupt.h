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
 * Install the handler on a real-time signal with the default disposition.
 * Return: 0, also if the library has such a signal already; -EBUSY: no signal is free.
 */
int rp_sample_signal_take(void);

/*
 * Restore the signal's default disposition, unless the signal is pending in a thread. Return: true
 * if the library has no signal afterwards.
 */
bool rp_sample_signal_give_back(void);

/* Restore it in a forked child, where no signal is pending. */
void rp_sample_signal_forget(void);

/*
 * Sample the thread each time it has run for `interval_ns`.
 * Return: 0; -EPERM: the thread blocks the signal; or -errno of timer_create(2).
 */
int rp_sample_timer_start(struct rp_sampled *thread, uint64_t interval_ns);
void rp_sample_timer_stop(struct rp_sampled *thread);

#endif
