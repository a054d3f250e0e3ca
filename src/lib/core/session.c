/* SPDX-License-Identifier: MIT */
/* Start and end of sessions. In between, the drain thread runs them: session_pass.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sized.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/activity_slots.h"
#include "core/core.h"
#include "core/drain.h"
#include "core/drain_wake.h"
#include "core/enable.h"
#include "core/listing.h"
#include "core/missing.h"
#include "core/notices.h"
#include "core/rings.h"
#include "core/session_recovery.h"
#include "core/session_setup.h"
#include "core/session_state.h"
#include "core/session_stats.h"
#include "ring/slot.h"

#define BUFFER_DEFAULT (64u << 20)

uint64_t rp_session_next_id(void)
{
	return rp_core_next_id();
}

void rp_session_begin_listening(void)
{
	rp_thread_listens = true;
}

uint64_t rp_session_id(const struct rp_session *session)
{
	return session->id;
}

int rp_session_provider_at(const struct rp_session_provider *providers, size_t index,
			   struct rp_session_provider *ret_provider)
{
	const struct rp_session_provider *at =
		(const void *)((const char *)providers + index * providers->size);

	if (at->size != providers->size)
		return -EINVAL;
	return rp_sized_read(ret_provider, sizeof(*ret_provider), RP_SESSION_PROVIDER_SIZE_V1, at);
}

static int copy_configs(const struct rp_session_provider *providers, size_t count,
			struct rp_config **ret_configs)
{
	struct rp_config *configs;
	int ret = 0;

	if (count > RP_SESSION_PROVIDERS_MAX || (count && !providers))
		return -EINVAL;
	configs = calloc(count ? count : 1, sizeof(*configs));
	if (!configs)
		return -ENOMEM;
	for (size_t i = 0; ret == 0 && i < count; i++) {
		struct rp_session_provider provider;

		ret = rp_session_provider_at(providers, i, &provider);
		if (ret == 0)
			ret = rp_config_copy(&configs[i], &provider);
	}
	if (ret != 0) {
		rp_configs_free(configs, count);
		return ret;
	}
	*ret_configs = configs;
	return 0;
}

static int copy_options(struct rp_session *session, const struct rp_session_options *options)
{
	const char *name = options->name ? options->name : "session";
	int ret;

	if (!rp_text_is_name(name) || options->provider_count == 0 ||
	    (options->flags & ~(RP_SESSION_STACKS | RP_SESSION_CAUSAL | RP_SESSION_NO_RUNDOWN |
				RP_SESSION_OVERWRITE | RP_SESSION_COARSE)) ||
	    ((options->flags & RP_SESSION_COARSE) &&
	     ((options->flags & RP_SESSION_CAUSAL) || options->recover_path ||
	      options->roll_bytes)))
		return -EINVAL;
	session->flags = options->flags;
	session->wait_ns = options->block_ms * 1000000ull;
	session->budget_bytes = options->buffer_bytes ? options->buffer_bytes : BUFFER_DEFAULT;
	if (session->budget_bytes < RP_SESSION_BUFFER_MIN ||
	    ((options->flags & RP_SESSION_OVERWRITE) &&
	     (session->budget_bytes < RP_SESSION_OVERWRITE_MIN || options->block_ms)))
		return -EINVAL;
	session->name = rp_text_copy(name);
	if (!session->name)
		return -ENOMEM;
	ret = copy_configs(options->providers, options->provider_count, &session->configs);
	if (ret == 0)
		session->config_count = options->provider_count;
	return ret;
}

static void free_session(struct rp_session *session)
{
	if (!session)
		return;
	rp_session_free_rings(session);
	rp_configs_free(session->configs, session->config_count);
	rp_session_free_state_rings(session);
	free(session->name);
	free(session->map);
	rp_missing_free(session->missing);
	free(session);
}

/* Create the rings for state events, which take a part of the session's buffer. */
static int make_state_rings(struct rp_session *session)
{
	struct rp_session *state_rings;

	if (!(session->flags & RP_SESSION_OVERWRITE))
		return 0;
	state_rings = calloc(1, sizeof(*state_rings));
	if (!state_rings)
		return -ENOMEM;
	state_rings->is_state_rings = true;
	state_rings->recovery = session->recovery;
	state_rings->budget_bytes = session->budget_bytes / 8;
	session->state_rings = state_rings;
	return rp_session_make_memory(state_rings);
}

static int make_session(const struct rp_session_setup *setup, struct rp_session **ret_session)
{
	struct rp_session *session;
	int ret;

	session = calloc(1, sizeof(*session));
	if (!session)
		return -ENOMEM;
	session->sink = setup->sink;
	ret = copy_options(session, setup->options);
	if (ret == 0)
		ret = rp_session_make_recovery(session, setup);
	if (ret == 0)
		ret = make_state_rings(session);
	if (ret == 0)
		ret = rp_session_make_memory(session);
	if (ret != 0) {
		free_session(session);
		return ret;
	}
	session->id = setup->id ? setup->id : rp_session_next_id();
	session->no_deadline = setup->sink->no_deadline;
	session->callbacks_async = setup->callbacks_async;
	for (size_t i = 0; i < session->config_count; i++) {
		session->configs[i].wants = setup->wants;
		session->configs[i].wants_data = setup->wants_data;
	}
	session->sample_interval_ns = setup->sample_interval_ns;
	session->format = setup->format;
	session->on_end = setup->on_end;
	session->last_ns = rp_clock_monotonic_ns();
	session->reported.point_ns = session->last_ns;
	session->data = setup->data;
	rp_session_start_recovery(session);
	*ret_session = session;
	return 0;
}

/* Choose a free slot, preferably one of which no writer still holds a fallback lock. */
static uint32_t choose_slot(uint64_t free_slots)
{
	for (uint64_t slots = free_slots; slots; slots &= slots - 1) {
		uint32_t slot = (uint32_t)__builtin_ctzll(slots);
		unsigned int left = 0;

		for (unsigned int i = 0; i < RP_FALLBACKS_MAX; i++) {
			const struct rp_fallback *fallback = &rp_slots[slot].fallback[i];
			uint64_t given_up = rp_load_relaxed(&fallback->left);

			left += given_up && rp_load_relaxed(&fallback->lock) == given_up;
		}
		if (left == 0)
			return slot;
	}
	return (uint32_t)__builtin_ctzll(free_slots);
}

/* The slots above those of `session`, because writers visit slots in ascending order. */
static uint64_t slots_after(const struct rp_session *session)
{
	return session ? ~0ull << (64 - __builtin_clzll(session->slots)) : ~0ull;
}

static int admit(struct rp_session *session, const struct rp_session *after)
{
	uint64_t free_slots = ~rp_core.slots_used & RP_SESSION_BITS & slots_after(after);

	if (__builtin_popcountll(free_slots) < (session->state_rings ? 2 : 1))
		return -ENOSPC;
	session->slot = choose_slot(free_slots);
	session->slots = 1ull << session->slot;
	if (session->state_rings) {
		session->state_rings->slot = choose_slot(free_slots & ~session->slots);
		session->slots |= 1ull << session->state_rings->slot;
	}
	rp_core.slots_used |= session->slots;
	rp_core.session_count++;
	cds_list_add_tail(&session->node, &rp_core.sessions);
	rp_session_attach(session);
	session->begun_ns = rp_clock_monotonic_ns();
	rp_notices_add(session, true);
	return 0;
}

int rp_session_open(const struct rp_session_setup *setup, struct rp_session **ret_session)
{
	struct rp_session *session;
	int ret = rp_core_init();

	if (ret == 0)
		ret = rp_drain_start();
	if (ret == 0)
		ret = make_session(setup, &session);
	if (ret != 0)
		return ret;
	pthread_mutex_lock(&rp_core.lock);
	ret = admit(session, setup->after);
	pthread_mutex_unlock(&rp_core.lock);
	if (ret != 0) {
		free_session(session);
		return ret;
	}
	*ret_session = session;
	rp_core_changed();
	rp_drain_wake();
	rp_notices_run(setup->callbacks_async);
	return 0;
}

int rp_session_set_providers(struct rp_session *session,
			     const struct rp_session_provider *providers, size_t count)
{
	struct rp_config *configs, *before = NULL;
	size_t count_before = 0;
	int ret = copy_configs(providers, count, &configs);

	if (ret != 0)
		return ret;
	pthread_mutex_lock(&rp_core.lock);
	if (session->state == RP_SESSION_RUNNING) {
		rp_notices_add(session, false);
		before = session->configs;
		count_before = session->config_count;
		session->configs = configs;
		session->config_count = count;
		rp_session_switch(session, true);
		rp_notices_add(session, true);
	} else {
		ret = -EPIPE;
	}
	pthread_mutex_unlock(&rp_core.lock);
	if (ret != 0)
		rp_configs_free(configs, count);
	else
		rp_configs_free(before, count_before);
	rp_notices_run(false);
	return ret;
}

void rp_session_finish(struct rp_session *session)
{
	bool first, async;

	pthread_mutex_lock(&rp_core.lock);
	async = session->callbacks_async;
	first = session->state == RP_SESSION_RUNNING;
	if (first) {
		rp_session_detach(session);
		rp_notices_add(session, false);
	}
	pthread_mutex_unlock(&rp_core.lock);
	if (first)
		rp_core_changed();
	rp_drain_wake();
	if (first)
		rp_notices_run(async);
}

void rp_session_discard(struct rp_session *session)
{
	pthread_mutex_lock(&rp_core.lock);
	session->finish.discard = true;
	pthread_mutex_unlock(&rp_core.lock);
	rp_session_finish(session);
}

RP_PUBLIC int rp_session_get_stats(struct rp_session *session, struct rp_session_stats *ret_stats)
{
	if (!session || !ret_stats || !rp_sized_fits(ret_stats, RP_SESSION_STATS_SIZE_V1))
		return -EINVAL;
	pthread_mutex_lock(&rp_core.lock);
	rp_sized_write(ret_stats, &session->stats, sizeof(session->stats));
	pthread_mutex_unlock(&rp_core.lock);
	return 0;
}

RP_PUBLIC int rp_session_stop(struct rp_session *session, struct rp_session_stats *ret_stats)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	int ret;

	if (!session)
		return 0;
	if (!rp_sized_fits(ret_stats, RP_SESSION_STATS_SIZE_V1))
		return -EINVAL;
	if (rp_drain_is_self())
		return -EDEADLK;
	rp_session_finish(session);
	pthread_mutex_lock(&rp_core.lock);
	while (session->state != RP_SESSION_ENDED)
		pthread_cond_wait(&rp_core.changed, &rp_core.lock);
	cds_list_del(&session->node);
	rp_session_add_to_past(session);
	if (ret_stats)
		rp_sized_write(ret_stats, &session->stats, sizeof(session->stats));
	ret = session->stats.error;
	pthread_mutex_unlock(&rp_core.lock);
	free_session(session);
	return ret;
}

/*
 * Return a session in this state that the end of the process must complete, or NULL. With the lock.
 */
static struct rp_session *find_with_deadline(enum rp_session_state state)
{
	struct rp_session *session;

	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		if (session->state == state && !session->no_deadline)
			return session;
	}
	return NULL;
}

void rp_sessions_finish_all(void)
{
	struct rp_session *session;

	if (rp_drain_is_self())
		return;
	pthread_mutex_lock(&rp_core.lock);
	while ((session = find_with_deadline(RP_SESSION_RUNNING)) != NULL)
		rp_session_detach(session);
	pthread_mutex_unlock(&rp_core.lock);
	rp_core_changed();
	rp_drain_wake();
	pthread_mutex_lock(&rp_core.lock);
	while (find_with_deadline(RP_SESSION_FINISHING))
		pthread_cond_wait(&rp_core.changed, &rp_core.lock);
	pthread_mutex_unlock(&rp_core.lock);
}
