/* SPDX-License-Identifier: MIT */
/*
 * The sampler: where this program's threads spend their time, as events ThreadSample of the
 * provider Microsoft-DotNETCore-SampleProfiler, which every client of the .NET runtime knows.
 */
#ifndef RP_SAMPLE_SAMPLE_H
#define RP_SAMPLE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/session.h>

#define RP_SAMPLE_PROVIDER "Microsoft-DotNETCore-SampleProfiler"

/*
 * Makes the provider. Nothing else happens until a session names it. Once.
 * Return: 0 or -ENOMEM.
 */
int rp_sample_init(void);

/*
 * The time between samples of one running thread that a session gets with these arguments of the
 * provider, in ns.
 */
uint32_t rp_sample_interval_ns(const char *filter_data);

/* The same for a session of these providers; 0: none of them is the sampler. */
uint32_t rp_sample_interval_of(const struct rp_session_provider *providers, size_t count);

/*
 * Whether the session's first samples are written: two of every thread, the first with its stack.
 * False also for a session that the sampler has not heard of yet.
 */
bool rp_sample_has_begun(uint64_t session);

/* Start the sampler's thread, which sleeps until a session wants samples. Return: 0 or -errno. */
int rp_sample_prepare(void);

/* Handlers for pthread_atfork(3). In the child, sampling stops. */
void rp_sample_fork_prepare(void);
void rp_sample_fork_parent(void);
void rp_sample_fork_child(void);

#endif
