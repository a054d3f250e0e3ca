/* SPDX-License-Identifier: MIT */
/* Samples that the host takes part in: at its safe points, or while it has stopped its threads. */
#ifndef RP_SAMPLE_HOST_SAMPLES_H
#define RP_SAMPLE_HOST_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/host.h>

/* Return: whether a host supplies frames. Context: any thread. */
bool rp_host_samples_has_walk(void);

/* The sampler's thread calls all functions below. */

/* Return: how the sampler gets stacks now. */
enum rp_host_sample_mode rp_host_samples_mode(void);

/*
 * In the modes without signals, sample each thread that has run since the last call, except the
 * library's own threads.
 */
void rp_host_samples_take(void);

/*
 * Get a thread's name from the host, or else from the kernel, cut to `size`. Return: its length; or
 * -errno.
 */
int rp_sample_thread_name(uint32_t thread, char *ret_name, size_t size);

#endif
