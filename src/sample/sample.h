/* SPDX-License-Identifier: MIT */
/*
 * The sampler: where this program's threads spend their time, as events ThreadSample of the
 * provider Microsoft-DotNETCore-SampleProfiler, which every client of the .NET runtime knows.
 */
#ifndef RP_SAMPLE_SAMPLE_H
#define RP_SAMPLE_SAMPLE_H

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

/* Around fork, as pthread_atfork(3) has it; in the child nobody samples any more. */
void rp_sample_fork_prepare(void);
void rp_sample_fork_parent(void);
void rp_sample_fork_child(void);

#endif
