/* SPDX-License-Identifier: MIT */
/*
 * The sampler's thread. The first session that names the provider starts this thread, which sleeps
 * without a timeout while no session names the provider. The sampler finds the program's threads
 * and starts their timers; each thread takes its own samples in a signal handler (interrupt.c).
 *
 * Each session begins with two samples of every thread (beginning.h). Clients assume that a sample
 * lasts until the thread's next one. So when a thread has gone to sleep (its CPU clock did not
 * advance for a tick), the sampler writes one more sample without a stack, which marks the sleep.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/notices.h"
#include "core/own.h"
#include "core/session_setup.h"
#include "sample/beginning.h"
#include "sample/deferred.h"
#include "sample/host_samples.h"
#include "sample/interrupt.h"
#include "sample/sample.h"

#define SCAN_NS 50000000u	/* minimum time between scans for new threads */
#define SCAN_SHARE 50u		/* a scan may use 1/SCAN_SHARE of the time */
#define NAMES_NS 1000000000u	/* between checks of the threads' names */
#define INTERVAL_MAX_MS 4000u	/* the longest interval in 32 bits of ns */

/* The request of a session. */
struct sample_request {
	struct rp_guid source;
	uint32_t interval_ns;
	bool is_host_only;		/* samples are wanted while a host supplies frames */
	bool has_begun;			/* the session's first samples are written */
};

static struct {
	pthread_mutex_t lock;		/* guards the members below; never held during a scan */
	pthread_cond_t news;
	struct sample_request requests[RP_SESSIONS_MAX];
	unsigned int request_count;
	uint64_t changes;		/* number of changes to the requests */
	bool is_beginning;		/* a new request since the sampler last looked */
} sampler = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct rp_thread_once sampler_thread = RP_THREAD_ONCE_INIT;

static struct rp_event *name_event;

/* State that only the sampler's thread uses. */
static struct {
	enum rp_host_sample_mode mode;
	bool marks;			/* the next tick marks all threads as owing first samples */
	bool is_beginning;		/* some thread still owes first samples */
	uint64_t changes;		/* the value of sampler.changes last seen */
	uint32_t interval_ns;		/* 0: no request */
	uint64_t scan_due_ns;
	uint64_t names_due_ns;
} own;

/* Return: the number that an argument of the provider has; 0 without the argument. */
static unsigned long get_argument(const char *filter_data, const char *name)
{
	unsigned long number;
	char *text;

	if (rp_filter_data_get(filter_data, name, &text) != 0)
		return 0;
	number = strtoul(text, NULL, 10);
	free(text);
	return number;
}

uint32_t rp_sample_interval_ns(const char *filter_data)
{
	unsigned long milliseconds = get_argument(filter_data, "SampleProfilerIntervalMS");
	struct timespec tick = { 0, 0 };
	uint64_t interval;

	if (milliseconds > INTERVAL_MAX_MS)
		milliseconds = INTERVAL_MAX_MS;
	interval = milliseconds * 1000000u;
	/* The kernel checks CPU timers at its own tick, whose period is this clock's resolution. */
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	return (uint32_t)(interval > (uint64_t)tick.tv_nsec ? interval : (uint64_t)tick.tv_nsec);
}

uint32_t rp_sample_interval_of(const struct rp_session_provider *providers, size_t count)
{
	struct rp_session_provider provider;

	/* The session's start refuses a wrong size later. */
	for (size_t i = 0; i < count && rp_session_provider_at(providers, i, &provider) == 0; i++) {
		if (provider.name && strcmp(provider.name, RP_SAMPLE_PROVIDER) == 0)
			return rp_sample_interval_ns(provider.filter_data);
	}
	return 0;
}

/* Emit a thread's name if it is new or has changed. */
static void report_name(struct rp_sampled *thread)
{
	char name[RP_THREAD_NAME_BYTES];
	int length = rp_sample_thread_name(thread->id, name, sizeof(name));
	struct rp_origin origin = { rp_thread_id(), 0, NULL };
	struct rp_part parts[] = { { &thread->id, sizeof(thread->id) }, { name, 0 } };

	/* The sampler's own thread is not sampled. */
	if (length <= 0 || thread->id == origin.thread)
		return;
	if (thread->is_named && strcmp(name, thread->name) == 0)
		return;
	memcpy(thread->name, name, sizeof(name));
	thread->is_named = true;
	parts[1].size_bytes = (size_t)length + 1;
	(void)rp_event_write_for(name_event, parts, 2, &origin);
}

static void thread_came(struct rp_sampled *thread)
{
	report_name(thread);
}

static void thread_went(struct rp_sampled *thread)
{
	rp_sample_timer_stop(thread);
}

static const struct rp_thread_visitor visitor = { thread_came, thread_went };

/*
 * Try every thread without a timer again: a new thread starts with all signals blocked and may have
 * unblocked this one since.
 */
static void give_timers(void)
{
	uint32_t self = rp_thread_id();

	if (own.mode != RP_HOST_SAMPLE_SIGNAL)
		return;
	for (uint32_t i = 0; i < rp_threads_count; i++) {
		struct rp_sampled *thread = &rp_threads[rp_threads_used[i]];

		if (!thread->has_timer && thread->id != self)
			(void)rp_sample_timer_start(thread, own.interval_ns);
	}
}

static void report_names(uint64_t now)
{
	if (now < own.names_due_ns)
		return;
	for (uint32_t i = 0; i < rp_threads_count; i++)
		report_name(&rp_threads[rp_threads_used[i]]);
	own.names_due_ns = now + NAMES_NS;
}

static void scan(void)
{
	uint64_t now = rp_clock_monotonic_ns(), took;

	if (now < own.scan_due_ns)
		return;
	rp_unwind_refresh();
	if (rp_threads_scan(&visitor) == 0) {
		give_timers();
		report_names(now);
	}
	took = rp_clock_monotonic_ns() - now;
	own.scan_due_ns = now + (took > SCAN_NS / SCAN_SHARE ? took * SCAN_SHARE : SCAN_NS);
}

/* Write the sample that marks sleep for each thread whose CPU clock did not advance. */
static void look_for_sleepers(void)
{
	for (uint32_t i = 0; i < rp_threads_count; i++) {
		struct rp_sampled *thread = &rp_threads[rp_threads_used[i]];
		uint64_t cpu_ns;

		if (!rp_load_relaxed(&thread->awake) ||
		    rp_thread_cpu_ns(thread->id, &cpu_ns) != 0)
			continue;
		if (cpu_ns == thread->cpu_ns) {
			rp_store_relaxed(&thread->awake, 0);
			rp_sample_write(thread->id, RP_SAMPLE_EXTERNAL, NULL, 0);
		}
		thread->cpu_ns = cpu_ns;
	}
}

/* Apply new requests: restart all timers and emit all names again. */
static void begin(uint32_t interval_ns)
{
	for (uint32_t i = 0; i < rp_threads_count; i++) {
		struct rp_sampled *thread = &rp_threads[rp_threads_used[i]];

		thread->is_named = false;
		rp_sample_timer_stop(thread);
	}
	rp_sample_signal_check();
	own.interval_ns = interval_ns;
	own.scan_due_ns = 0;
	own.names_due_ns = 0;
}

static void end(void)
{
	rp_threads_clear(&visitor);
	own.interval_ns = 0;
}

/*
 * The shortest requested interval, or 0 if no request applies now. The caller holds the lock.
 */
static uint32_t wanted_interval(void)
{
	const bool has_host = rp_host_samples_has_walk();
	uint32_t interval = 0;

	for (unsigned int i = 0; i < sampler.request_count; i++) {
		const struct sample_request *request = &sampler.requests[i];

		if (request->is_host_only && !has_host)
			continue;
		if (interval == 0 || request->interval_ns < interval)
			interval = request->interval_ns;
	}
	return interval;
}

/* Wait until the requests change or the next tick is due. Return: the interval wanted now. */
static uint32_t wait_for_work(bool *ret_changed)
{
	uint32_t interval;
	struct timespec until;
	uint64_t until_ns = rp_clock_monotonic_ns() + own.interval_ns;

	until.tv_sec = (time_t)(until_ns / 1000000000u);
	until.tv_nsec = (long)(until_ns % 1000000000u);
	pthread_mutex_lock(&sampler.lock);
	while (own.changes == sampler.changes) {
		if (own.interval_ns == 0)
			pthread_cond_wait(&sampler.news, &sampler.lock);
		else if (pthread_cond_timedwait(&sampler.news, &sampler.lock, &until) == ETIMEDOUT)
			break;
	}
	interval = wanted_interval();
	own.marks |= sampler.is_beginning;
	sampler.is_beginning = false;
	*ret_changed = own.changes != sampler.changes;
	own.changes = sampler.changes;
	pthread_mutex_unlock(&sampler.lock);
	return interval;
}

/* If a new request was made meanwhile, only the next beginning completes the requests. */
static void end_beginning(void)
{
	own.is_beginning = false;
	pthread_mutex_lock(&sampler.lock);
	for (unsigned int i = 0; i < sampler.request_count && !sampler.is_beginning; i++)
		sampler.requests[i].has_begun = true;
	pthread_mutex_unlock(&sampler.lock);
}

/* A host that is registered during a session may select another mode. */
static void choose_mode(void)
{
	enum rp_host_sample_mode mode = rp_host_samples_mode();

	if (mode != RP_HOST_SAMPLE_SIGNAL && own.mode == RP_HOST_SAMPLE_SIGNAL) {
		for (uint32_t i = 0; i < rp_threads_count; i++)
			rp_sample_timer_stop(&rp_threads[rp_threads_used[i]]);
	}
	own.mode = mode;
}

static void write_beginning(void)
{
	if (own.marks)
		rp_beginning_mark();
	own.is_beginning |= own.marks;
	own.marks = false;
	if (own.is_beginning)
		rp_beginning_write();
}

static void *sampler_run(void *data)
{
	(void)data;
	for (;;) {
		bool changed;
		uint32_t interval = wait_for_work(&changed);

		if (changed && interval)
			begin(interval);
		else if (changed)
			end();
		if (!interval)
			continue;
		choose_mode();
		rp_sample_prepare_deferred();
		if (own.mode == RP_HOST_SAMPLE_SIGNAL && rp_sample_signal_take() != 0) {
			end_beginning();
			continue;
		}
		scan();
		write_beginning();
		rp_host_samples_take();
		look_for_sleepers();
		if (own.is_beginning && rp_beginning_is_over())
			end_beginning();
	}
	return NULL;
}

static void add_request(const struct rp_provider_state *state)
{
	struct sample_request *request;

	if (sampler.request_count == RP_SESSIONS_MAX)
		return;
	request = &sampler.requests[sampler.request_count++];
	request->source = state->source;
	request->interval_ns = rp_sample_interval_ns(state->filter_data);
	request->is_host_only = get_argument(state->filter_data, "HostOnly") != 0;
	/* Without a host, the end of the session waits for no samples. */
	request->has_begun = request->is_host_only && !rp_host_samples_has_walk();
	sampler.is_beginning |= !request->has_begun;
}

static void remove_request(const struct rp_provider_state *state)
{
	for (unsigned int i = 0; i < sampler.request_count; i++) {
		struct sample_request *request = &sampler.requests[i];

		if (memcmp(&request->source, &state->source, sizeof(state->source)) != 0)
			continue;
		*request = sampler.requests[--sampler.request_count];
		return;
	}
}

int rp_sample_prepare(void)
{
	return rp_thread_create_once(&sampler_thread, "ringpipe-sample", sampler_run, NULL);
}

static void on_session(struct rp_provider *provider, const struct rp_provider_state *state,
		       void *data)
{
	bool wanted;

	(void)provider;
	(void)data;
	pthread_mutex_lock(&sampler.lock);
	if (state->source_enabled)
		add_request(state);
	else
		remove_request(state);
	sampler.changes++;
	wanted = wanted_interval() != 0;
	pthread_cond_signal(&sampler.news);
	pthread_mutex_unlock(&sampler.lock);
	if (wanted)
		(void)rp_sample_prepare();
}

void rp_sample_host_changed(void)
{
	bool has_request = false, has_host;

	pthread_mutex_lock(&sampler.lock);
	has_host = rp_host_samples_has_walk();
	for (unsigned int i = 0; i < sampler.request_count; i++) {
		struct sample_request *request = &sampler.requests[i];

		has_request |= request->is_host_only;
		/* The end of the session waits for no samples of a host that has left. */
		request->has_begun |= request->is_host_only && !has_host;
	}
	if (has_request) {
		sampler.is_beginning |= has_host;
		sampler.changes++;
		pthread_cond_signal(&sampler.news);
		has_request = wanted_interval() != 0;
	}
	pthread_mutex_unlock(&sampler.lock);
	if (has_request)
		(void)rp_sample_prepare();
}

bool rp_sample_has_begun(uint64_t session)
{
	struct rp_guid source;
	bool has_begun = false;

	rp_source_guid(session, &source);
	pthread_mutex_lock(&sampler.lock);
	for (unsigned int i = 0; i < sampler.request_count; i++) {
		const struct sample_request *request = &sampler.requests[i];

		has_begun |= request->has_begun &&
			     memcmp(&request->source, &source, sizeof(source)) == 0;
	}
	pthread_mutex_unlock(&sampler.lock);
	return has_begun;
}

static void make_condition(void)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&sampler.news, &attributes);
	pthread_condattr_destroy(&attributes);
}

int rp_sample_init(void)
{
	/* Type: enum rp_sample_type. */
	static const struct rp_field sample_fields[] = {
		{ "Type", NULL, 0, RP_TYPE_I32, 0, 0, NULL },
	};
	static const struct rp_field name_fields[] = {
		{ "Thread", NULL, 0, RP_TYPE_U32, 0, 0, NULL },
		{ "Name", NULL, 0, RP_TYPE_STRING, 0, 0, NULL },
	};
	static const struct rp_event_decl sample = {
		.size = sizeof(sample), .id = 0, .name = "ThreadSample", .fields = sample_fields,
		.field_count = 1, .level = RP_LEVEL_INFORMATIONAL, .flags = RP_EVENT_NO_STACK,
	};
	static const struct rp_event_decl name = {
		.size = sizeof(name), .id = 1, .name = "ThreadName", .fields = name_fields,
		.field_count = 2, .level = RP_LEVEL_INFORMATIONAL, .flags = RP_EVENT_NO_STACK,
	};
	struct rp_provider *provider;
	int ret;

	make_condition();
	ret = rp_provider_create_by_name(RP_SAMPLE_PROVIDER, on_session, NULL, &provider);
	if (ret == 0)
		ret = rp_event_create(provider, &sample, &rp_sample_event);
	if (ret == 0)
		ret = rp_event_create(provider, &name, &name_event);
	return ret;
}

void rp_sample_fork_prepare(void)
{
	pthread_mutex_lock(&sampler.lock);
	rp_unwind_fork_prepare();
}

void rp_sample_fork_parent(void)
{
	rp_unwind_fork_parent();
	pthread_mutex_unlock(&sampler.lock);
}

void rp_sample_fork_child(void)
{
	pthread_mutex_unlock(&sampler.lock);
	make_condition();
	sampler.request_count = 0;
	sampler.is_beginning = false;
	(void)rp_thread_once_forget(&sampler_thread);
	memset(&own, 0, sizeof(own));
	rp_threads_forget();
	rp_unwind_fork_child();
}
