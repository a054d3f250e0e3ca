/* SPDX-License-Identifier: MIT */
/*
 * Providers, and telling their callbacks.
 *
 * Callbacks run without a lock, one at a time for each provider and in order: whoever has news
 * queues notices, then delivers all that are queued and waits for those another thread is
 * delivering.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/own.h"

void rp_source_guid(uint64_t id, struct rp_guid *ret_guid)
{
	memset(ret_guid, 0, sizeof(*ret_guid));
	for (int i = 0; i < 8; i++)
		ret_guid->bytes[15 - i] = (uint8_t)(id >> (8 * i));
}

/* The true aggregate, over all sessions and exporters, at this moment. */
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

static void queue_notice(struct rp_provider *provider, const struct rp_session *session,
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

static bool is_own_callback(const struct rp_provider *provider)
{
	return provider->in_callback && pthread_equal(provider->caller, pthread_self());
}

/* How many callbacks this thread is inside of. */
static __thread unsigned int callback_depth;

/* One callback, with the lock given up meanwhile. */
static void deliver(struct rp_provider *provider, struct rp_notice *notice)
{
	rp_provider_callback callback = provider->callback;
	void *data = provider->data;
	struct rp_provider_state state = {
		.size = sizeof(state),
		.source = notice->source,
		.source_enabled = notice->enabled,
		.filter_data = notice->filter_data,
	};

	aggregate(provider, &state);
	pthread_mutex_unlock(&rp_core.lock);
	if (callback)
		callback(provider, &state, data);
	free_notice(notice);
	pthread_mutex_lock(&rp_core.lock);
}

/* With the lock held; nobody frees a provider that is in its callback. */
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
		if (provider->callback && rp_session_config(session, provider))
			queue_notice(provider, session, enabled);
	}
}

/*
 * The list may change whenever the lock was given up: each time the search begins anew. Inside a
 * callback, a listener's too, nobody waits for another, which could wait for this one; nor does
 * the drain thread, which a callback may be waiting for. The thread that is in the other callback
 * then delivers.
 */
static void deliver_pending(void)
{
	bool is_drain = rp_core.drain_started &&
			pthread_equal(rp_core.drain_thread, pthread_self());
	bool may_wait = callback_depth == 0 && !rp_thread_listens && !is_drain;
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

static void *run_aside(void *data)
{
	(void)data;
	/* Nobody waits for this thread: it need not wait for another one's callback either. */
	callback_depth = 1;
	pthread_mutex_lock(&rp_core.lock);
	deliver_pending();
	pthread_mutex_unlock(&rp_core.lock);
	return NULL;
}

/* Whether somebody is to be told whom nobody is telling right now. */
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

/* A thread for each time: one that hangs in a callback holds up the news of that provider alone. */
void rp_notices_run(bool aside)
{
	pthread_t thread;

	if (aside && !is_due())
		return;
	if (aside && rp_thread_start(&thread, "ringpipe-notice", run_aside, NULL) == 0) {
		pthread_detach(thread);
		return;
	}
	pthread_mutex_lock(&rp_core.lock);
	deliver_pending();
	pthread_mutex_unlock(&rp_core.lock);
}

static struct rp_provider *make_provider(const char *name, rp_provider_callback callback,
					 void *data)
{
	struct rp_provider *provider = calloc(1, sizeof(*provider));

	if (!provider)
		return NULL;
	provider->name = rp_text_copy(name);
	if (!provider->name) {
		free(provider);
		return NULL;
	}
	provider->callback = callback;
	provider->data = data;
	CDS_INIT_LIST_HEAD(&provider->sites);
	CDS_INIT_LIST_HEAD(&provider->notices);
	return provider;
}

/* Tells a callback of the sessions that want its provider already. With the lock held. */
static void replay_sessions(struct rp_provider *provider)
{
	struct rp_session *session;

	if (!provider->callback)
		return;
	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		if (session->state == RP_SESSION_RUNNING &&
		    rp_session_config(session, provider))
			queue_notice(provider, session, true);
	}
	rp_exporters_replay(provider);
	deliver_pending();
}

static int create_provider(const char *name, bool by_name, rp_provider_callback callback,
			   void *data, struct rp_provider **ret_provider)
{
	struct rp_provider *provider;

	if (!rp_text_is_name(name) || !ret_provider)
		return -EINVAL;
	provider = make_provider(name, callback, data);
	if (!provider)
		return -ENOMEM;
	provider->by_name = by_name;
	/* Before the callback runs: it may want to use the pointer. */
	*ret_provider = provider;
	pthread_mutex_lock(&rp_core.lock);
	cds_list_add_tail(&provider->node, &rp_core.providers);
	replay_sessions(provider);
	pthread_mutex_unlock(&rp_core.lock);
	return 0;
}

RP_PUBLIC int rp_provider_create(const char *name, rp_provider_callback callback, void *data,
				 struct rp_provider **ret_provider)
{
	return create_provider(name, false, callback, data, ret_provider);
}

int rp_provider_create_by_name(const char *name, rp_provider_callback callback, void *data,
			       struct rp_provider **ret_provider)
{
	return create_provider(name, true, callback, data, ret_provider);
}

/* With the lock held, which is given up while another thread is in the callback. */
static void remove_provider(struct rp_provider *provider)
{
	struct rp_notice *notice, *next_notice;
	struct rp_site *site, *next_site;

	provider->dead = true;
	cds_list_del(&provider->node);
	cds_list_for_each_entry_safe(site, next_site, &provider->sites, node)
		rp_site_remove(site);
	while (provider->in_callback && !is_own_callback(provider))
		pthread_cond_wait(&rp_core.changed, &rp_core.lock);
	cds_list_for_each_entry_safe(notice, next_notice, &provider->notices, node)
		free_notice(notice);
	free(provider->name);
	free(provider);
}

/* The lock goes back before anyone waits for a callback, which may be waiting for the lock. */
static void withdraw(struct rp_provider *provider)
{
	rp_exporters_lock();
	rp_exporters_withdraw(provider);
	rp_exporters_unlock();
}

RP_PUBLIC int rp_provider_destroy(struct rp_provider *provider)
{
	bool own;

	if (!provider)
		return 0;
	if (provider->declared)
		return -EINVAL;
	pthread_mutex_lock(&rp_core.lock);
	own = is_own_callback(provider);
	pthread_mutex_unlock(&rp_core.lock);
	if (own)
		return -EDEADLK;
	withdraw(provider);
	pthread_mutex_lock(&rp_core.lock);
	remove_provider(provider);
	pthread_mutex_unlock(&rp_core.lock);
	return 0;
}

RP_PUBLIC int rp_provider_set_callback(struct rp_provider *provider, rp_provider_callback callback,
				       void *data)
{
	int ret = 0;

	if (!provider)
		return -EINVAL;
	pthread_mutex_lock(&rp_core.lock);
	if (is_own_callback(provider)) {
		ret = -EDEADLK;
	} else {
		while (provider->in_callback)
			pthread_cond_wait(&rp_core.changed, &rp_core.lock);
		provider->callback = callback;
		provider->data = data;
		replay_sessions(provider);
	}
	pthread_mutex_unlock(&rp_core.lock);
	return ret;
}

RP_PUBLIC const char *rp_provider_name(const struct rp_provider *provider)
{
	return provider->name;
}

/* An event whose provider could not be registered stays off: it is never written. */
static void register_events(struct rp_object *object)
{
	for (struct rp_event **entry = object->events; entry < object->events_end; entry++) {
		struct rp_event *event = *entry;
		struct rp_def *def;

		if (!event || event->core || !event->decl->provider->core)
			continue;
		if (rp_def_get(event->decl->provider->name, event->decl, &def) != 0)
			continue;
		if (rp_site_add(event->decl->provider->core, event, def, false) != 0)
			rp_def_put(def);
	}
}

void rp_core_register(struct rp_object *object)
{
	rp_exporters_lock();
	pthread_mutex_lock(&rp_core.lock);
	if (!object->registered) {
		object->registered = 1;
		for (struct rp_provider_decl **entry = object->providers;
		     entry < object->providers_end; entry++) {
			struct rp_provider_decl *decl = *entry;

			if (!decl || decl->core || !rp_text_is_name(decl->name))
				continue;
			decl->core = make_provider(decl->name, NULL, NULL);
			if (!decl->core)
				continue;
			decl->core->declared = true;
			cds_list_add_tail(&decl->core->node, &rp_core.providers);
		}
		register_events(object);
	}
	pthread_mutex_unlock(&rp_core.lock);
	rp_exporters_settle();
	rp_exporters_unlock();
}

/* What leaves is unknown to exporters before it is unmapped. */
static void withdraw_object(const struct rp_object *object)
{
	for (struct rp_provider_decl **entry = object->providers; entry < object->providers_end;
	     entry++) {
		if (*entry && (*entry)->core)
			withdraw((*entry)->core);
	}
}

void rp_core_unregister(struct rp_object *object)
{
	if (object->registered)
		withdraw_object(object);
	pthread_mutex_lock(&rp_core.lock);
	if (object->registered) {
		object->registered = 0;
		for (struct rp_provider_decl **entry = object->providers;
		     entry < object->providers_end; entry++) {
			if (!*entry || !(*entry)->core)
				continue;
			remove_provider((*entry)->core);
			(*entry)->core = NULL;
		}
	}
	pthread_mutex_unlock(&rp_core.lock);
}
