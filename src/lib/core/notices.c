/* SPDX-License-Identifier: MIT */
/*
 * Delivery of notices to the callbacks of providers.
 *
 * Callbacks run without a lock, one at a time for each provider, and in order. A thread with a
 * change queues notices. It then delivers all queued notices, and waits for the notices that
 * another thread is delivering.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/drain_wake.h"
#include "core/enable.h"
#include "core/exporter_set.h"
#include "core/notices.h"
#include "core/own.h"
#include "core/provider_table.h"
#include "core/session_setup.h"
#include "core/session_state.h"

void rp_source_guid(uint64_t id, struct rp_guid *ret_guid)
{
	memset(ret_guid, 0, sizeof(*ret_guid));
	for (int i = 0; i < 8; i++)
		ret_guid->bytes[15 - i] = (uint8_t)(id >> (8 * i));
}

/* Compute the current state of a provider over all sessions and exporters. */
static void aggregate(const struct rp_provider *provider, struct rp_provider_state *ret_state)
{
	struct rp_session *session;

	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		const struct rp_config *config = rp_session_config(session, provider);

		if (session->state != RP_SESSION_RUNNING || !config)
			continue;
		ret_state->enabled = 1;
		ret_state->keywords |= config->keywords;
		if (config->level == 0 || ret_state->level < config->level)
			ret_state->level = config->level ? config->level : RP_LEVEL_VERBOSE;
	}
	for (uint32_t i = 0; i < rp_core.exporter_count; i++) {
		struct rp_export_state state;

		rp_export_state_get(provider, &rp_core.exporters[i], &state);
		ret_state->enabled |= state.events != 0;
		ret_state->keywords |= state.keywords;
		if (ret_state->level < state.level)
			ret_state->level = state.level;
	}
}

int rp_notice_add(struct rp_provider *provider, uint64_t source, bool enabled,
		  const char *filter_data)
{
	struct rp_notice *notice = calloc(1, sizeof(*notice));

	if (!notice)
		return -ENOMEM;
	rp_source_guid(source, &notice->source);
	notice->enabled = enabled;
	notice->filter_data = rp_text_copy(filter_data);
	if (filter_data && !notice->filter_data) {
		free(notice);
		return -ENOMEM;
	}
	cds_list_add_tail(&notice->node, &provider->notices);
	return 0;
}

int rp_notice_add_watcher(struct rp_provider *provider, struct rp_watcher *watcher)
{
	int ret = rp_notice_add(provider, 0, false, NULL);

	if (ret == 0)
		cds_list_entry(provider->notices.prev, struct rp_notice, node)->watcher = watcher;
	return ret;
}

void rp_notice_add_session(struct rp_provider *provider, const struct rp_session *session,
			   bool enabled)
{
	const struct rp_config *config = rp_session_config(session, provider);

	(void)rp_notice_add(provider, session->id, enabled, config ? config->filter_data : NULL);
}

static void free_notice(struct rp_notice *notice)
{
	free(notice->filter_data);
	free(notice);
}

void rp_notices_drop(struct rp_provider *provider)
{
	struct rp_notice *notice, *next;

	cds_list_for_each_entry_safe(notice, next, &provider->notices, node)
		free_notice(notice);
}

bool rp_notices_is_inside(const struct rp_provider *provider)
{
	return provider->in_callback && pthread_equal(provider->caller, pthread_self());
}

/* The number of callbacks inside which this thread is. */
static __thread unsigned int callback_depth;

/* Call the watchers and the callback. The lock is released during the calls. */
static void deliver(struct rp_provider *provider, struct rp_notice *notice)
{
	rp_provider_callback callback = notice->watcher ? NULL : provider->callback;
	const struct rp_watcher *watcher;
	void *data = provider->data;
	struct rp_provider_state state = {
		.size = sizeof(state),
		.source = notice->source,
		.source_enabled = notice->enabled,
		.filter_data = notice->filter_data,
	};

	aggregate(provider, &state);
	pthread_mutex_unlock(&rp_core.lock);
	cds_list_for_each_entry(watcher, &provider->watchers, node) {
		if (!notice->watcher || notice->watcher == watcher)
			watcher->callback(provider, &state, watcher->data);
	}
	if (callback)
		callback(provider, &state, data);
	free_notice(notice);
	pthread_mutex_lock(&rp_core.lock);
}

/* With the lock held. A provider inside its callback is not freed. */
static void deliver_queued(struct rp_provider *provider)
{
	provider->in_callback = true;
	provider->caller = pthread_self();
	callback_depth++;
	while (!provider->dead && !cds_list_empty(&provider->notices)) {
		struct rp_notice *notice = cds_list_first_entry(&provider->notices,
								struct rp_notice, node);

		cds_list_del(&notice->node);
		deliver(provider, notice);
	}
	callback_depth--;
	provider->in_callback = false;
	pthread_cond_broadcast(&rp_core.changed);
}

void rp_notices_add(struct rp_session *session, bool enabled)
{
	struct rp_provider *provider;

	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		if (rp_provider_is_observed(provider) && rp_session_config(session, provider))
			rp_notice_add_session(provider, session, enabled);
	}
}

/*
 * The list of providers may change whenever the lock is released, so the search restarts each time.
 * Three kinds of threads do not wait for a callback on another thread. A callback could wait for a
 * thread that is inside a callback of a provider or listener, or for the drain thread, so these two
 * kinds would hang. No thread depends on the notices of the thread of rp_notices_run(), so it does
 * not have to wait. The thread that runs the callback delivers the notices that the others leave.
 */
void rp_notices_deliver(void)
{
	bool may_wait = callback_depth == 0 && !rp_thread_listens && !rp_drain_is_self();
	struct rp_provider *provider;

again:
	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		if (provider->in_callback) {
			if (!may_wait)
				continue;
			pthread_cond_wait(&rp_core.changed, &rp_core.lock);
			goto again;
		}
		if (!cds_list_empty(&provider->notices)) {
			deliver_queued(provider);
			goto again;
		}
	}
}

static void *run_async(void *data)
{
	(void)data;
	/*
	 * No thread waits for this one, so it does not need to wait for another thread's callback.
	 */
	callback_depth = 1;
	pthread_mutex_lock(&rp_core.lock);
	rp_notices_deliver();
	pthread_mutex_unlock(&rp_core.lock);
	return NULL;
}

/* Whether a provider has queued notices and no thread is inside its callback. */
static bool is_due(void)
{
	struct rp_provider *provider;
	bool due = false;

	pthread_mutex_lock(&rp_core.lock);
	cds_list_for_each_entry(provider, &rp_core.providers, node)
		due |= !provider->in_callback && !cds_list_empty(&provider->notices);
	pthread_mutex_unlock(&rp_core.lock);
	return due;
}

/* One thread per call, so that a callback that hangs delays only notices of its own provider. */
void rp_notices_run(bool async)
{
	pthread_t thread;

	if (async && !is_due())
		return;
	if (async && rp_thread_start(&thread, "ringpipe-notice", run_async, NULL) == 0) {
		pthread_detach(thread);
		return;
	}
	pthread_mutex_lock(&rp_core.lock);
	rp_notices_deliver();
	pthread_mutex_unlock(&rp_core.lock);
}
