/* SPDX-License-Identifier: MIT */
#include "sample/host_samples.h"

#include <string.h>

#include "base/atomic.h"
#include "base/host_table.h"
#include "base/thread.h"
#include "sample/interrupt.h"
#include "sample/threads.h"
#include "unwind/host_frames.h"
#include "unwind/unwind.h"

enum rp_host_sample_mode rp_host_samples_mode(void)
{
	const struct rp_host *host = rp_host_get();

	return host ? (enum rp_host_sample_mode)host->sample_mode : RP_HOST_SAMPLE_SIGNAL;
}

bool rp_host_samples_has_walk(void)
{
	const struct rp_host *host = rp_host_get();

	return host && host->walk;
}

static bool has_run(struct rp_sampled *thread)
{
	uint64_t before = thread->host_cpu_ns;

	if (rp_thread_is_running(thread->id) ||
	    rp_thread_cpu_ns(thread->id, &thread->host_cpu_ns) != 0)
		return false;
	return thread->host_cpu_ns != before;
}

static void count_sample(struct rp_sampled *thread)
{
	rp_store_relaxed(&thread->samples, thread->samples + 1);
	rp_store_relaxed(&thread->awake, 1);
}

/* This allocates nothing and takes no lock: the stopped threads may hold any lock. */
static void sample_stopped(struct rp_sampled *thread)
{
	uint64_t frames[RP_STACK_MAX];
	unsigned int count = rp_host_frames_of(thread->id, frames);

	rp_sample_write(thread->id, RP_SAMPLE_MANAGED, frames, count);
	count_sample(thread);
}

static void take_stopped(const struct rp_host *host)
{
	if (host->stop_world(host->data) != 0)
		return;
	for (uint32_t i = 0; i < rp_threads_count; i++) {
		if (rp_threads[rp_threads_used[i]].host_is_due)
			sample_stopped(&rp_threads[rp_threads_used[i]]);
	}
	host->start_world(host->data);
}

static void request_samples(const struct rp_host *host)
{
	for (uint32_t i = 0; i < rp_threads_count; i++) {
		struct rp_sampled *thread = &rp_threads[rp_threads_used[i]];

		if (!thread->host_is_due)
			continue;
		count_sample(thread);
		host->request_sample(thread->id, host->data);
	}
}

void rp_host_samples_take(void)
{
	const struct rp_host *host = rp_host_running();

	if (!host || host->sample_mode == RP_HOST_SAMPLE_SIGNAL)
		return;
	for (uint32_t i = 0; i < rp_threads_count; i++) {
		struct rp_sampled *thread = &rp_threads[rp_threads_used[i]];

		thread->host_is_due = has_run(thread);
	}
	if (host->sample_mode == RP_HOST_SAMPLE_STOPPED)
		take_stopped(host);
	else if (host->sample_mode == RP_HOST_SAMPLE_SAFE_POINT)
		request_samples(host);
}

int rp_sample_thread_name(uint32_t thread, char *ret_name, size_t size)
{
	const struct rp_host *host = rp_host_running();
	int length;

	if (host && host->thread_name) {
		memset(ret_name, 0, size);
		if (host->thread_name(thread, ret_name, size, host->data) == 0) {
			ret_name[size - 1] = '\0';
			return (int)strlen(ret_name);
		}
	}
	length = rp_thread_file(thread, "comm", ret_name, size);
	if (length > 0 && ret_name[length - 1] == '\n')
		ret_name[--length] = '\0';
	return length;
}
