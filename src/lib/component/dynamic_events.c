/* SPDX-License-Identifier: MIT */
#include "component/dynamic_events.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <ringpipe/event.h>

#include "core/core.h"

static CDS_LIST_HEAD(all);		/* under rp_core.lock */

static const struct rp_field fields[] = {
	{ "name", NULL, 0, RP_TYPE_STRING, 0, 0, NULL },
	{ "payload", NULL, 0, RP_TYPE_ARRAY, RP_TYPE_U8, 0, NULL },
};

static const char *const names[RP_LEVELS] = {
	[RP_LEVEL_LOG_ALWAYS] = "DynamicAlways",
	[RP_LEVEL_CRITICAL] = "DynamicCritical",
	[RP_LEVEL_ERROR] = "DynamicError",
	[RP_LEVEL_WARNING] = "DynamicWarning",
	[RP_LEVEL_INFORMATIONAL] = "DynamicInformational",
	[RP_LEVEL_VERBOSE] = "DynamicVerbose",
};

/* Without the lock. */
static int create(struct rp_dynamic_events *events)
{
	for (uint32_t level = 0; level < RP_LEVELS; level++) {
		const struct rp_event_decl decl = {
			.size = sizeof(decl),
			.name = names[level],
			.id = RP_EVENT_ID_AUTO,
			.level = (uint8_t)level,
			.fields = fields,
			.field_count = 2,
		};
		int ret = rp_event_create(events->provider, &decl, &events->events[level]);

		if (ret != 0)
			return ret;
	}
	return 0;
}

/* Without the lock. */
static void destroy(struct rp_dynamic_events *events)
{
	for (uint32_t level = 0; level < RP_LEVELS; level++)
		rp_event_destroy(events->events[level]);
}

/* Find the events of a provider, or NULL. With the lock, which is released during a wait. */
static struct rp_dynamic_events *find(const struct rp_provider *provider)
{
	struct rp_dynamic_events *events;

again:
	cds_list_for_each_entry(events, &all, node) {
		if (events->provider != provider)
			continue;
		if (events->changing == getpid()) {
			pthread_cond_wait(&rp_core.changed, &rp_core.lock);
			goto again;
		}
		return events;
	}
	return NULL;
}

/* End a change. The events have no users if they are destroyed, or were never created. */
static void end_change(struct rp_dynamic_events *events)
{
	const bool is_unused = !events->users;

	events->changing = 0;
	if (is_unused)
		cds_list_del(&events->node);
	if (is_unused && !events->is_kept)
		free(events);
	pthread_cond_broadcast(&rp_core.changed);
}

int rp_dynamic_events_get(struct rp_provider *provider, struct rp_dynamic_events **ret_events)
{
	struct rp_dynamic_events *events;
	int ret;

	pthread_mutex_lock(&rp_core.lock);
	events = find(provider);
	if (events) {
		/* In a forked child, a thread of the parent may have created some of the events. */
		ret = events->changing ? -EEXIST : 0;
		events->users += ret == 0;
		goto out;
	}
	ret = -ENOMEM;
	events = calloc(1, sizeof(*events));
	if (!events)
		goto out;
	events->provider = provider;
	events->changing = getpid();
	cds_list_add(&events->node, &all);
	pthread_mutex_unlock(&rp_core.lock);
	ret = create(events);
	if (ret != 0)
		destroy(events);
	pthread_mutex_lock(&rp_core.lock);
	events->users = ret == 0;
	end_change(events);
out:
	pthread_mutex_unlock(&rp_core.lock);
	if (ret == 0)
		*ret_events = events;
	return ret;
}

void rp_dynamic_events_put(struct rp_dynamic_events *events, bool keep)
{
	if (!events)
		return;
	pthread_mutex_lock(&rp_core.lock);
	events->is_kept |= keep;
	if (--events->users) {
		pthread_mutex_unlock(&rp_core.lock);
		return;
	}
	events->changing = getpid();
	keep = events->is_kept;
	pthread_mutex_unlock(&rp_core.lock);
	if (!keep)
		destroy(events);
	pthread_mutex_lock(&rp_core.lock);
	end_change(events);
	pthread_mutex_unlock(&rp_core.lock);
}
