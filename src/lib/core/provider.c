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
#include "core/provider_list.h"
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
	return provider;
}

/*
 * Queue and deliver notices to a new callback for all sessions that already want its provider. With
 * the lock held.
 */
static void replay_sessions(struct rp_provider *provider)
{
	struct rp_session *session;

	if (!provider->callback)
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

RP_PUBLIC int rp_provider_set_callback(struct rp_provider *provider, rp_provider_callback callback,
				       void *data)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	int ret = 0;

	if (!provider)
		return -EINVAL;
	pthread_mutex_lock(&rp_core.lock);
	if (rp_notices_is_inside(provider)) {
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

/*
 * Return another event of the provider with the same id, or NULL. A record could belong to either
 * of two such events.
 */
static const struct rp_event_def *find_clash(const struct rp_event_decl *decl)
{
	const struct rp_event_def *other = rp_provider_event(decl->provider->core,
							     rp_event_id(decl));

	return other && strcmp(other->name, decl->name) != 0 ? other : NULL;
}

/*
 * Register the events of an object. An event whose provider could not be registered stays disabled.
 */
static void register_events(struct rp_object *object)
{
	for (struct rp_event **entry = object->events; entry < object->events_end; entry++) {
		struct rp_event *event = *entry;
		struct rp_def *def;

		if (!event || event->core || !event->decl->provider->core ||
		    find_clash(event->decl))
			continue;
		if (rp_def_get(event->decl->provider->name, event->decl, &def) != 0)
			continue;
		if (rp_site_add(event->decl->provider->core, event, def, false) != 0)
			rp_def_put(def);
	}
}

/* Without the lock, because standard error may be a full pipe. */
static void report_clashes(const struct rp_object *object)
{
	for (struct rp_event **entry = object->events; entry < object->events_end; entry++) {
		const struct rp_event_decl *decl = *entry ? (*entry)->decl : NULL;
		char name[RP_NAME_MAX + 1] = "";

		if (!decl || (*entry)->core || !decl->provider->core)
			continue;
		pthread_mutex_lock(&rp_core.lock);
		if (find_clash(decl))
			snprintf(name, sizeof(name), "%s", find_clash(decl)->name);
		pthread_mutex_unlock(&rp_core.lock);
		if (*name)
			rp_warn("ringpipe: events %s and %s of %s both have the id %u: %s is left "
				"out\n", name, decl->name, decl->provider->name,
				rp_event_id(decl), decl->name);
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
	report_clashes(object);
}

/* Withdraw the object's providers from the exporters before the object is unmapped. */
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
