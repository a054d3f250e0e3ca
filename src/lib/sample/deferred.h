/* SPDX-License-Identifier: MIT */
/* Samples whose host frames are added at a safe point of the host. */
#ifndef RP_SAMPLE_DEFERRED_H
#define RP_SAMPLE_DEFERRED_H

#include "sample/threads.h"
#include "unwind/host_frames.h"

/*
 * Keep the native stack of the calling thread for rp_host_sample_now(). A stack that is kept
 * already is written first, without the host's frames. If no memory is left, the stack is written.
 *
 * Context: the signal handler of the sampler.
 */
void rp_sample_defer(const struct rp_sampled *thread, const struct rp_native_stack *stack);

/* Map the memory for deferred samples, once a host has a walk. Context: the sampler's thread. */
void rp_sample_prepare_deferred(void);

#endif
