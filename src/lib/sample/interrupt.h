/* SPDX-License-Identifier: MIT */
/* The signal that interrupts running threads, and what its handler does: take a sample. */
#ifndef RP_SAMPLE_INTERRUPT_H
#define RP_SAMPLE_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/event.h>

#include "sample/threads.h"
#include "unwind/unwind.h"

/* Payload of a ThreadSample event: what the thread was doing, in the .NET runtime's words. */
enum rp_sample_type {
	RP_SAMPLE_EXTERNAL = 1,	/* out of the program's hands: asleep */
	RP_SAMPLE_MANAGED = 2,	/* running; native code too, or clients would not show it */
};

/* The event that samples are; set before the first timer. */
extern struct rp_event *rp_sample_event;

/* Writes a sample in the thread's name. Context: any, signal handlers included. */
void rp_sample_write(uint32_t thread, enum rp_sample_type type, const uint64_t *frames,
		     uint32_t frame_count);

/*
 * Takes a real-time signal that the program does nothing with. Return: 0, also when it is ours
 * already; -EBUSY: none is free.
 */
int rp_sample_signal_take(void);

/* Gives it back, unless one may still come. Whether it is back, or was never taken. */
bool rp_sample_signal_give_back(void);

/* In a forked child, where none can come. */
void rp_sample_signal_forget(void);

/*
 * Samples the thread each time it has run for `interval_ns`.
 * Return: 0; -EPERM: it blocks the signal; or -errno of timer_create(2).
 */
int rp_sample_timer_start(struct rp_sampled *thread, uint64_t interval_ns);
void rp_sample_timer_stop(struct rp_sampled *thread);

#endif
