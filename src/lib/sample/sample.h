/* SPDX-License-Identifier: MIT */
/*
 * The sampler shows where this program's threads spend their time. It writes ThreadSample events of
 * the provider Microsoft-DotNETCore-SampleProfiler, which every client of the .NET runtime knows.
 */
#ifndef RP_SAMPLE_SAMPLE_H
#define RP_SAMPLE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/session.h>

#define RP_SAMPLE_PROVIDER "Microsoft-DotNETCore-SampleProfiler"

/*
 * Create the provider. The sampler does nothing else until a session names the provider. Call this
 * function once.
 * Return: 0 or -ENOMEM.
 */
int rp_sample_init(void);

/*
 * Get the time in ns between two samples of a running thread, from the arguments that a session
 * passes to the provider.
 */
uint32_t rp_sample_interval_ns(const char *filter_data);

/*
 * As rp_sample_interval_ns(), for a session with these providers; 0: none of them is the sampler.
 */
uint32_t rp_sample_interval_of(const struct rp_session_provider *providers, size_t count);

/*
 * Return: whether the session's first samples are written: two of every thread, the first with its
 * stack. False also if the sampler has not processed the session's request yet.
 */
bool rp_sample_has_begun(uint64_t session);

/*
 * Start or stop the samples of sessions that want them only while a host supplies frames. Call this
 * function after a host was registered or unregistered.
 */
void rp_sample_host_changed(void);

/* Start the sampler's thread, which sleeps until a session wants samples. Return: 0 or -errno. */
int rp_sample_prepare(void);

/* Handlers for pthread_atfork(3). In the child, sampling stops. */
void rp_sample_fork_prepare(void);
void rp_sample_fork_parent(void);
void rp_sample_fork_child(void);

#endif
