/* SPDX-License-Identifier: MIT */
/* Checks of the frames that a host supplies. */
#include "host_test/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(suite, "Ringpipe-Host-Test");
RP_EVENT(suite, called, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(check));

#define CANARY 0x5ca1ab1e5ca1ab1eull
#define EVENTS 100u

/* The body of a call: an attempt to walk, and its result. */
struct walk_attempt {
	struct rp_suite *suite;
	enum rp_check_result result;
};

static enum rp_check_result run_in_host(struct rp_suite *suite, void (*body)(void *))
{
	struct walk_attempt attempt = { suite, RP_CHECK_FAILED };

	rp_suite_fail(suite, "call() did not run the body");
	suite->test->call(body, &attempt, suite->test->data);
	if (attempt.result == RP_CHECK_OK)
		suite->reason[0] = '\0';
	return attempt.result;
}

static void try_each_maximum(void *data)
{
	const struct rp_host_walk walk = {
		.size = sizeof(walk), .context = RP_HOST_WALK_EVENT,
	};
	struct walk_attempt *attempt = data;
	struct rp_suite *suite = attempt->suite;
	uint64_t frames[RP_STACK_MAX + 1];

	attempt->result = RP_CHECK_OK;
	for (unsigned int max = 0; max <= RP_STACK_MAX; max++) {
		int count;

		for (unsigned int i = 0; i <= RP_STACK_MAX; i++)
			frames[i] = CANARY;
		count = suite->host->walk(&walk, frames, max, suite->host->data);
		if (count > (int)max || frames[max] != CANARY) {
			attempt->result = rp_suite_fail(suite, "with space for %u it returned %d",
							max, count);
			return;
		}
	}
}

enum rp_check_result rp_check_walk_stays_within_its_maximum(struct rp_suite *suite)
{
	return suite->host->walk ? run_in_host(suite, try_each_maximum) :
	       rp_suite_skip(suite, "no walk");
}

static void compare_names(void *data)
{
	struct walk_attempt *attempt = data;
	struct rp_suite *suite = attempt->suite;
	uint64_t frames[RP_STACK_MAX];
	unsigned int count = rp_suite_walk(suite->host, frames, RP_STACK_MAX);

	attempt->result = RP_CHECK_OK;
	for (unsigned int i = 0; i < suite->test->name_count; i++) {
		struct rp_host_method method;
		char text[2 * RP_HOST_NAME_BYTES + 32] = "no frame";

		if (i < count && rp_suite_resolve(suite->host, frames[i], &method) != 0)
			snprintf(text, sizeof(text), "0x%llx without a name",
				 (unsigned long long)frames[i]);
		else if (i < count)
			rp_suite_print(&method, text, sizeof(text));
		if (strcmp(text, suite->test->names[i]) == 0)
			continue;
		attempt->result = rp_suite_fail(suite, "frame %u is \"%s\", not \"%s\"", i, text,
						suite->test->names[i]);
		return;
	}
	if (count > suite->test->name_count)
		attempt->result = rp_suite_fail(suite, "%u frames instead of %u", count,
						suite->test->name_count);
}

enum rp_check_result rp_check_walk_returns_the_running_functions(struct rp_suite *suite)
{
	return suite->host->walk ? run_in_host(suite, compare_names) :
	       rp_suite_skip(suite, "no walk");
}

static void walk_once(void *data)
{
	struct walk_attempt *attempt = data;
	uint64_t frames[RP_STACK_MAX];

	(void)rp_suite_walk(attempt->suite->host, frames, RP_STACK_MAX);
	attempt->result = RP_CHECK_OK;
}

enum rp_check_result rp_check_walk_is_empty_outside_of_the_host(struct rp_suite *suite)
{
	uint64_t frames[RP_STACK_MAX];
	unsigned int count;

	if (!suite->host->walk)
		return rp_suite_skip(suite, "no walk");
	(void)run_in_host(suite, walk_once);
	count = rp_suite_walk(suite->host, frames, RP_STACK_MAX);
	return count == 0 ? RP_CHECK_OK :
	       rp_suite_fail(suite, "%u frames after the call has returned", count);
}

static struct {
	struct rp_suite *suite;
	uint64_t of_others;		/* events that another provider wrote inside `walk` */
	uint64_t events;		/* of the suite */
	uint64_t without_frames;	/* those of them without a frame of the host */
} seen;

static void see_event(const struct rp_listener_event *event, void *data)
{
	struct rp_host_method method;
	bool has_frame = false;

	(void)data;
	if (strcmp(event->provider, "Ringpipe-Host-Test") != 0) {
		seen.of_others += strcmp(event->provider, "ringpipe") != 0;
		return;
	}
	seen.events++;
	for (uint32_t i = 0; i < event->frame_count; i++) {
		has_frame |= rp_suite_resolve(seen.suite->host, event->frames[i], &method) == 0;
	}
	seen.without_frames += !has_frame;
}

static void write_events(void *data)
{
	for (uint32_t i = 0; i < EVENTS; i++)
		suite_called(i);
	((struct walk_attempt *)data)->result = RP_CHECK_OK;
}

/* Write events with stacks in the host's functions, and count them in `seen`. */
static int record_events(struct rp_suite *suite, const char *provider)
{
	struct rp_session_provider wanted = RP_SESSION_PROVIDER_INIT;
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;
	struct rp_listener *listener;
	int ret;

	memset(&seen, 0, sizeof(seen));
	seen.suite = suite;
	wanted.name = provider;
	options.name = "ringpipe-host-test";
	options.providers = &wanted;
	options.provider_count = 1;
	options.flags = RP_SESSION_STACKS;
	ret = rp_listener_start(&options, see_event, NULL, &listener);
	if (ret != 0)
		return ret;
	/* The first events request the unwind rules. */
	for (int i = 0; i < 3; i++) {
		(void)run_in_host(suite, write_events);
		rp_sessions_flush(1000);
	}
	return rp_listener_stop(listener, NULL);
}

enum rp_check_result rp_check_walk_allocates_nothing(struct rp_suite *suite)
{
	unsigned long before = rp_malloc_calls;
	void *(*volatile allocate)(size_t) = malloc;

	if (!suite->host->walk)
		return rp_suite_skip(suite, "no walk");
	free(allocate(1));
	if (rp_malloc_calls == before)
		return rp_suite_skip(suite, "the program has its own malloc");
	if (record_events(suite, "Ringpipe-Host-Test") != 0)
		return rp_suite_fail(suite, "no session could start");
	return rp_walk_counts.allocations == 0 ? RP_CHECK_OK :
	       rp_suite_fail(suite, "%llu calls of malloc in %llu walks",
			     (unsigned long long)rp_walk_counts.allocations,
			     (unsigned long long)rp_walk_counts.calls);
}

enum rp_check_result rp_check_walk_writes_no_events(struct rp_suite *suite)
{
	uint64_t with_walk;

	if (!suite->host->walk)
		return rp_suite_skip(suite, "no walk");
	if (record_events(suite, "*") != 0)
		return rp_suite_fail(suite, "no session could start");
	with_walk = seen.of_others;
	if (record_events(suite, "Ringpipe-Host-Test") != 0)
		return rp_suite_fail(suite, "no session could start");
	/* Other threads may write events too; a walk writes at least one for each event. */
	return with_walk < EVENTS ? RP_CHECK_OK :
	       rp_suite_fail(suite, "%llu events of other providers during the walks",
			     (unsigned long long)with_walk);
}

enum rp_check_result rp_check_interpreters_are_on_the_stack(struct rp_suite *suite)
{
	if (!suite->host->walk || !suite->host->interpreter_count)
		return rp_suite_skip(suite, "no interpreters");
	if (record_events(suite, "Ringpipe-Host-Test") != 0)
		return rp_suite_fail(suite, "no session could start");
	if (seen.events == 0 || seen.without_frames == seen.events)
		return rp_suite_fail(suite, "no event has a frame of the host");
	return rp_walk_counts.matched > 0 ? RP_CHECK_OK :
	       rp_suite_fail(suite, "no native stack has as many frames in `interpreters` as "
			     "walk returns invocations");
}
