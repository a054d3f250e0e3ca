/* SPDX-License-Identifier: MIT */
/* Create, register and remove providers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/warn.h"
#include "core/core.h"
#include "core/def_table.h"
#include "core/enable.h"
#include "core/exporter_set.h"
#include "core/notices.h"
#include "core/own.h"
#include "core/provider_table.h"
#include "core/session_state.h"
#include "core/sites.h"

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
	CDS_INIT_LIST_HEAD(&provider->watchers);
	return provider;
}

/*
 * Queue and deliver notices to a new callback for all sessions that already want its provider. With
 * the lock held.
 */
static void replay_sessions(struct rp_provider *provider)
{
	struct rp_session *session;

	if (!rp_provider_is_observed(provider))
		return;
	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		if (session->state == RP_SESSION_RUNNING &&
		    rp_session_config(session, provider))
			rp_notice_add_session(provider, session, true);
	}
	rp_exporters_replay(provider);
	rp_notices_deliver();
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
	/* Before the callback runs, because it may use the pointer. */
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
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	return create_provider(name, false, callback, data, ret_provider);
}

int rp_provider_create_by_name(const char *name, rp_provider_callback callback, void *data,
			       struct rp_provider **ret_provider)
{
	return create_provider(name, true, callback, data, ret_provider);
}

/*
 * Remove a provider. The caller holds the lock, which is released while another thread is in the
 * callback.
 */
static void remove_provider(struct rp_provider *provider)
{
	struct rp_site *site, *next_site;

	provider->dead = true;
	cds_list_del(&provider->node);
	cds_list_for_each_entry_safe(site, next_site, &provider->sites, node)
		rp_site_remove(site);
	while (provider->in_callback && !rp_notices_is_inside(provider))
		pthread_cond_wait(&rp_core.changed, &rp_core.lock);
	rp_notices_drop(provider);
	free(provider->name);
	free(provider);
}

/*
 * Withdraw a provider from the exporters. This releases the exporters' lock before the caller waits
 * for a callback, because the callback may wait for that lock.
 */
static void withdraw(struct rp_provider *provider)
{
	rp_exporters_lock();
	rp_exporters_withdraw(provider);
	rp_exporters_unlock();
}

RP_PUBLIC int rp_provider_destroy(struct rp_provider *provider)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	bool own;

	if (!provider)
		return 0;
	if (provider->declared)
		return -EINVAL;
	pthread_mutex_lock(&rp_core.lock);
	own = rp_notices_is_inside(provider);
	pthread_mutex_unlock(&rp_core.lock);
	if (own)
		return -EDEADLK;
	withdraw(provider);
	pthread_mutex_lock(&rp_core.lock);
	remove_provider(provider);
	pthread_mutex_unlock(&rp_core.lock);
	return 0;
}

/* Wait until no callback of the provider runs. With the lock. Return: 0; -EDEADLK. */
static int wait_for_callback(const struct rp_provider *provider)
{
	if (rp_notices_is_inside(provider))
		return -EDEADLK;
	while (provider->in_callback)
		pthread_cond_wait(&rp_core.changed, &rp_core.lock);
	return 0;
}

RP_PUBLIC int rp_provider_set_callback(struct rp_provider *provider, rp_provider_callback callback,
				       void *data)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	int ret;

	if (!provider)
		return -EINVAL;
	pthread_mutex_lock(&rp_core.lock);
	ret = wait_for_callback(provider);
	if (ret == 0) {
		provider->callback = callback;
		provider->data = data;
		replay_sessions(provider);
	}
	pthread_mutex_unlock(&rp_core.lock);
	return ret;
}

int rp_provider_watch(struct rp_provider *provider, struct rp_watcher *watcher)
{
	int ret;

	pthread_mutex_lock(&rp_core.lock);
	ret = wait_for_callback(provider);
	if (ret == 0 && !watcher->is_listed)
		ret = rp_notice_add_watcher(provider, watcher);
	if (ret == 0 && !watcher->is_listed) {
		/* When the provider is observed, the states of exporters are up to date. */
		if (!rp_provider_is_observed(provider))
			rp_exporters_replay(provider);
		cds_list_add_tail(&watcher->node, &provider->watchers);
		watcher->is_listed = true;
		rp_notices_deliver();
	}
	pthread_mutex_unlock(&rp_core.lock);
	return ret;
}

int rp_provider_unwatch(struct rp_provider *provider, struct rp_watcher *watcher)
{
	int ret;

	pthread_mutex_lock(&rp_core.lock);
	ret = wait_for_callback(provider);
	if (ret == 0 && watcher->is_listed) {
		cds_list_del(&watcher->node);
		watcher->is_listed = false;
	}
	pthread_mutex_unlock(&rp_core.lock);
	return ret;
}

RP_PUBLIC const char *rp_provider_name(const struct rp_provider *provider)
{
	return provider->name;
}

int rp_provider_decl_read(struct rp_provider_decl *ret_decl, const struct rp_provider_decl *decl)
{
	struct rp_provider_decl own;

	if (rp_sized_read(&own, sizeof(own), RP_PROVIDER_DECL_SIZE_V1, decl) != 0 ||
	    !rp_text_is_name(own.name))
		return -EINVAL;
	*ret_decl = own;
	return 0;
}

/* The provider that a declaration has registered, or NULL. */
static struct rp_provider *registered_provider(const struct rp_provider_decl *decl)
{
	return decl && rp_sized_fits(decl, RP_PROVIDER_DECL_SIZE_V1) ? decl->core : NULL;
}

static void register_providers(struct rp_object *object)
{
	for (struct rp_provider_decl **entry = object->providers; entry < object->providers_end;
	     entry++) {
		struct rp_provider_decl *decl = *entry, own;

		if (!decl || registered_provider(decl) || rp_provider_decl_read(&own, decl) != 0)
			continue;
		decl->core = make_provider(own.name, NULL, NULL);
		if (!decl->core)
			continue;
		decl->core->declared = true;
		cds_list_add_tail(&decl->core->node, &rp_core.providers);
	}
}

/*
 * The event that has this one's id and version already, or NULL: a record could be either of the
 * two.
 */
static const struct rp_event_def *find_clash(const struct rp_provider *provider,
					     const struct rp_event_decl *decl)
{
	const struct rp_event_def *other = rp_provider_event(provider, decl->id,
							     decl->version);

	return other && strcmp(other->name, decl->name) != 0 ? other : NULL;
}

/*
 * Register the events of an object. An event whose provider could not be registered stays disabled.
 */
static void register_events(struct rp_object *object)
{
	for (struct rp_event **entry = object->events; entry < object->events_end; entry++) {
		struct rp_event *event = *entry;
		struct rp_provider *provider;
		struct rp_event_decl own;
		struct rp_def *def;

		if (!event || event->core || rp_event_decl_read(&own, event->decl) != 0)
			continue;
		provider = registered_provider(own.provider);
		if (!provider || find_clash(provider, &own))
			continue;
		if (rp_def_get(provider->name, &own, &def) != 0)
			continue;
		if (rp_site_add(provider, event, def, false) != 0)
			rp_def_put(def);
	}
}

static void report_provider(const struct rp_provider_decl *decl)
{
	const char *reason = rp_sized_refusal(decl, sizeof(*decl), RP_PROVIDER_DECL_SIZE_V1);
	const bool named = rp_sized_fits(decl, RP_PROVIDER_DECL_SIZE_V1) &&
			   rp_text_is_name(decl->name);

	if (!reason)
		reason = named ? "memory is short" : "its name is invalid";
	rp_warn("ringpipe: provider %s is left out, with its events and counters: %s\n",
		named ? decl->name : "?", reason);
}

/* Whether the event is left out because another one has its id. */
static bool report_clash(struct rp_provider *provider, const struct rp_event_decl *decl)
{
	char name[RP_NAME_MAX + 1] = "";

	pthread_mutex_lock(&rp_core.lock);
	if (find_clash(provider, decl))
		snprintf(name, sizeof(name), "%s", find_clash(provider, decl)->name);
	pthread_mutex_unlock(&rp_core.lock);
	if (*name)
		rp_warn("ringpipe: events %s and %s of %s both have the id %u: %s is left out\n",
			name, decl->name, decl->provider->name, decl->id, decl->name);
	return *name;
}

static void report_event(const struct rp_event_decl *decl)
{
	const char *reason = rp_sized_refusal(decl, sizeof(*decl), RP_EVENT_DECL_SIZE_V1);
	struct rp_provider *provider;
	struct rp_event_decl own;

	if (!rp_sized_fits(decl, RP_EVENT_DECL_SIZE_V1)) {
		rp_warn("ringpipe: an event is left out: %s\n", reason);
		return;
	}
	provider = registered_provider(decl->provider);
	if (!provider)
		return;		/* the report of its provider mentions it */
	if (rp_event_decl_read(&own, decl) == 0) {
		if (report_clash(provider, &own))
			return;
		reason = "memory is short";
	} else if (!reason) {
		reason = "its declaration is invalid";
	}
	rp_warn("ringpipe: event %s of %s is left out: %s\n",
		rp_text_is_name(decl->name) ? decl->name : "?", decl->provider->name, reason);
}

/* Without the lock, for standard error may be a pipe that is full. */
static void report_refusals(const struct rp_object *object)
{
	for (struct rp_provider_decl **entry = object->providers; entry < object->providers_end;
	     entry++) {
		if (*entry && !registered_provider(*entry))
			report_provider(*entry);
	}
	for (struct rp_event **entry = object->events; entry < object->events_end; entry++) {
		if (*entry && !(*entry)->core)
			report_event((*entry)->decl);
	}
}

void rp_core_register(struct rp_object *object)
{
	if (!rp_sized_fits(object, RP_OBJECT_SIZE_V1)) {
		rp_warn("ringpipe: an object has headers from before version 1: no events of it\n");
		return;
	}
	rp_exporters_lock();
	pthread_mutex_lock(&rp_core.lock);
	if (!object->registered) {
		object->registered = 1;
		register_providers(object);
		register_events(object);
	}
	pthread_mutex_unlock(&rp_core.lock);
	rp_exporters_settle();
	rp_exporters_unlock();
	report_refusals(object);
}

/* Withdraw the object's providers from the exporters before the object is unmapped. */
static void withdraw_object(const struct rp_object *object)
{
	for (struct rp_provider_decl **entry = object->providers; entry < object->providers_end;
	     entry++) {
		if (registered_provider(*entry))
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
			if (!registered_provider(*entry))
				continue;
			remove_provider((*entry)->core);
			(*entry)->core = NULL;
		}
	}
	pthread_mutex_unlock(&rp_core.lock);
}
