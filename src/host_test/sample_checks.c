/* SPDX-License-Identifier: MIT */
/* Checks of the samples that the host takes part in. */
#include "host_test/suite.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define SAMPLES 20u
#define SAMPLE_PROVIDER "Microsoft-DotNETCore-SampleProfiler"
#define STILL_NS 500000000u

/* The samples of one thread. Threads use it atomically. */
static struct {
	const struct rp_host *host;
	uint32_t thread;
	uint64_t with_stack;
	uint64_t with_host;		/* those of them with a frame of the host */
	uint64_t until_ns;
} samples;

static void see_sample(const struct rp_listener_event *event, void *data)
{
	struct rp_host_method method;
	bool has_host = false;

	(void)data;
	if (event->thread != samples.thread || !event->frame_count || event->id != 0)
		return;
	for (uint32_t i = 0; i < event->frame_count; i++)
		has_host |= rp_suite_resolve(samples.host, event->frames[i], &method) == 0;
	__atomic_fetch_add(&samples.with_host, has_host, __ATOMIC_RELAXED);
	__atomic_fetch_add(&samples.with_stack, 1, __ATOMIC_RELAXED);
}

static int has_samples(void *data)
{
	(void)data;
	return __atomic_load_n(&samples.with_stack, __ATOMIC_RELAXED) >= SAMPLES ||
	       rp_suite_now_ns() > samples.until_ns;
}

/* Sample the calling thread in a function of the host. Return: 0 or -errno. */
static int sample_host(struct rp_suite *suite)
{
	struct rp_session_provider wanted = RP_SESSION_PROVIDER_INIT;
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;
	struct rp_listener *listener;
	int ret;

	memset(&samples, 0, sizeof(samples));
	samples.host = suite->host;
	samples.thread = (uint32_t)gettid();
	samples.until_ns = rp_suite_now_ns() + RP_SUITE_PATIENCE_NS;
	wanted.name = SAMPLE_PROVIDER;
	options.name = "ringpipe-host-test";
	options.providers = &wanted;
	options.provider_count = 1;
	ret = rp_listener_start(&options, see_sample, NULL, &listener);
	if (ret != 0)
		return ret;
	suite->test->compute(has_samples, NULL, suite->test->data);
	return rp_listener_stop(listener, NULL);
}

enum rp_check_result rp_check_samples_show_the_host(struct rp_suite *suite)
{
	if (!suite->host->walk || !suite->host->resolve)
		return rp_suite_skip(suite, "no walk or no resolve");
	if (sample_host(suite) != 0)
		return rp_suite_fail(suite, "no session could start");
	if (samples.with_stack == 0)
		return rp_suite_fail(suite, "no sample in %u seconds",
				     (unsigned int)(RP_SUITE_PATIENCE_NS / 1000000000u));
	return 2 * samples.with_host >= samples.with_stack ? RP_CHECK_OK :
	       rp_suite_fail(suite, "only %llu of %llu samples have a frame of the host",
			     (unsigned long long)samples.with_host,
			     (unsigned long long)samples.with_stack);
}

enum rp_check_result rp_check_deferred_samples_are_taken(struct rp_suite *suite)
{
	if (!suite->host->walk)
		return rp_suite_skip(suite, "no walk");
	if (suite->host->sample_mode != RP_HOST_SAMPLE_SIGNAL)
		return rp_suite_skip(suite, "the host has no samples in signal handlers");
	if (sample_host(suite) != 0)
		return rp_suite_fail(suite, "no session could start");
	if (rp_walk_counts.deferred == 0)
		return rp_suite_skip(suite, "walk deferred no sample");
	return 2 * rp_walk_counts.safe_points >= rp_walk_counts.deferred ? RP_CHECK_OK :
	       rp_suite_fail(suite, "%llu calls of rp_host_sample_now() after %llu results of "
			     "-EAGAIN", (unsigned long long)rp_walk_counts.safe_points,
			     (unsigned long long)rp_walk_counts.deferred);
}

/* A thread that runs the host's functions, and its progress. */
struct runner {
	struct rp_suite *suite;
	uint64_t steps;
	uint32_t is_over;
};

static int step(void *data)
{
	struct runner *runner = data;

	__atomic_fetch_add(&runner->steps, 1, __ATOMIC_RELAXED);
	return (int)__atomic_load_n(&runner->is_over, __ATOMIC_RELAXED);
}

static void *run_host(void *data)
{
	struct runner *runner = data;

	runner->suite->test->compute(step, runner, runner->suite->test->data);
	return NULL;
}

/* Wait until the runner has made progress. Return: whether it has. */
static bool wait_for_steps(const struct runner *runner, uint64_t before)
{
	uint64_t until = rp_suite_now_ns() + RP_SUITE_PATIENCE_NS;

	while (__atomic_load_n(&runner->steps, __ATOMIC_RELAXED) == before) {
		if (rp_suite_now_ns() > until)
			return false;
		sched_yield();
	}
	return true;
}

/* Return: the steps while the world is stopped. */
static uint64_t count_steps(const struct runner *runner)
{
	uint64_t before = __atomic_load_n(&runner->steps, __ATOMIC_RELAXED);
	uint64_t until = rp_suite_now_ns() + STILL_NS;

	while (rp_suite_now_ns() < until &&
	       __atomic_load_n(&runner->steps, __ATOMIC_RELAXED) == before)
		sched_yield();
	return __atomic_load_n(&runner->steps, __ATOMIC_RELAXED) - before;
}

static enum rp_check_result stop_runner(struct rp_suite *suite, const struct runner *runner)
{
	const struct rp_host *host = suite->host;
	uint64_t steps, before;

	if (!wait_for_steps(runner, 0))
		return rp_suite_fail(suite, "compute() does not call its function");
	if (host->stop_world(host->data) != 0)
		return rp_suite_fail(suite, "the world could not be stopped");
	steps = count_steps(runner);
	before = __atomic_load_n(&runner->steps, __ATOMIC_RELAXED);
	host->start_world(host->data);
	if (steps)
		return rp_suite_fail(suite, "a thread ran while the world was stopped");
	return wait_for_steps(runner, before) ? RP_CHECK_OK :
	       rp_suite_fail(suite, "no thread runs after start_world");
}

enum rp_check_result rp_check_a_stopped_world_stands_still(struct rp_suite *suite)
{
	struct runner runner = { .suite = suite };
	enum rp_check_result result;
	pthread_t thread;

	if (!suite->host->stop_world || !suite->host->start_world)
		return rp_suite_skip(suite, "no stop_world");
	if (pthread_create(&thread, NULL, run_host, &runner) != 0)
		return rp_suite_skip(suite, "no thread could start");
	result = stop_runner(suite, &runner);
	__atomic_store_n(&runner.is_over, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	return result;
}
