/* SPDX-License-Identifier: MIT */
/*
 * The beginning of a session: two samples of every thread, the first with its stack. Clients assume
 * that a sample lasts until the next sample of the same thread, and show no sample that has no
 * successor.
 */
#ifndef RP_SAMPLE_BEGINNING_H
#define RP_SAMPLE_BEGINNING_H

#include <stdbool.h>

/* Mark every thread in the table, except the sampler's, as owing its first two samples. */
void rp_beginning_mark(void);

/*
 * Write both samples of each sleeping thread. The signal handler of a running thread writes that
 * thread's samples at the next ticks of its timer.
 *
 * Context: the sampler's thread, after rp_beginning_mark() and at each tick.
 */
void rp_beginning_write(void);

/* Return: whether each thread has its two samples, or cannot get them. */
bool rp_beginning_is_over(void);

#endif
