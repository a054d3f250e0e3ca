/* SPDX-License-Identifier: MIT */
/*
 * The beginning of a session: two samples of every thread, the first with its stack. Clients take a
 * sample to last until the thread's next one, and show none that has no next one.
 */
#ifndef RP_SAMPLE_BEGINNING_H
#define RP_SAMPLE_BEGINNING_H

#include <stdbool.h>

/* Have every thread in the table but the sampler's own begin anew. */
void rp_beginning_mark(void);

/*
 * Write both samples of each thread that sleeps; a running thread writes its own at its timer's
 * next ticks.
 *
 * Context: the sampler's thread, after rp_beginning_mark() and at each tick.
 */
void rp_beginning_write(void);

/* Return: whether each thread has its two samples, or cannot have them. */
bool rp_beginning_is_over(void);

#endif
