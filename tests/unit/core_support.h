/* SPDX-License-Identifier: MIT */
/* Shared parts of the engine's tests: listeners started from a list as text, and waiting. */
#ifndef CORE_SUPPORT_H
#define CORE_SUPPORT_H

#include <criterion/criterion.h>

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ringpipe/ringpipe.h>

#define PATIENCE_MS 60000
#define PATIENCE_S (PATIENCE_MS / 1000)

/* Polls a condition; fails the test if it does not become true within PATIENCE_S. */
#define wait_until(condition) \
	do { \
		time_t limit_ = time(NULL) + PATIENCE_S; \
		while (!(condition)) { \
			cr_assert(time(NULL) <= limit_, "never came true: " #condition); \
			poll(NULL, 0, 1); \
		} \
	} while (0)

static inline struct rp_session_stats empty_stats(void)
{
	return (struct rp_session_stats){ .size = sizeof(struct rp_session_stats) };
}

/* Options for the providers in the list; release them with free_options(). */
static inline struct rp_session_options options_for(const char *list)
{
	struct rp_session_options options = {
		.size = sizeof(options),
		.buffer_bytes = RP_SESSION_BUFFER_MIN,
	};
	struct rp_session_provider *providers;

	cr_assert_eq(rp_providers_parse(list, &providers, &options.provider_count, NULL), 0);
	options.providers = providers;
	return options;
}

static inline void free_options(struct rp_session_options *options)
{
	free((void *)(uintptr_t)options->providers);
}

static inline struct rp_listener *push_to(rp_listener_callback callback, void *data,
					  const char *list, uint32_t flags)
{
	struct rp_session_options options = options_for(list);
	struct rp_listener *listener;

	options.flags = flags;
	cr_assert_eq(rp_listener_start(&options, callback, data, &listener), 0);
	free_options(&options);
	return listener;
}

static inline struct rp_listener *listen_to(const char *list)
{
	return push_to(NULL, NULL, list, 0);
}

static inline void stop_listening(struct rp_listener *listener)
{
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

static inline struct rp_session *stream_to(int fd, const char *list)
{
	struct rp_session_options options = options_for(list);
	struct rp_session *session;

	options.output_fd = fd;
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	return session;
}

/* Like rp_listener_next(), but skips StacksCut, which may accompany any stack. */
static inline int next_event(struct rp_listener *listener, struct rp_listener_event *ret_event)
{
	int ret;

	do {
		ret_event->size = sizeof(*ret_event);
		ret = rp_listener_next(listener, ret_event, PATIENCE_MS);
	} while (ret == 1 && strcmp(ret_event->name, "StacksCut") == 0);
	return ret;
}

static inline void expect_event(struct rp_listener *listener, struct rp_listener_event *ret_event)
{
	cr_assert_eq(next_event(listener, ret_event), 1, "no event came");
}

static inline void expect_payload(struct rp_listener *listener, const void *bytes, size_t size)
{
	struct rp_listener_event event;

	expect_event(listener, &event);
	cr_assert_eq(event.payload_bytes, size, "%zu bytes, not %zu", event.payload_bytes, size);
	cr_assert_arr_eq(event.payload, bytes, size);
}

/* Closes the listener, expects that no event was pending, and stops without a loss. */
static inline void expect_end(struct rp_listener *listener)
{
	struct rp_session_stats stats = empty_stats();
	struct rp_listener_event event;

	cr_assert_eq(rp_listener_drain(listener), 0);
	cr_assert_eq(next_event(listener, &event), -EPIPE);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(stats.lost, 0u);
}

#endif
