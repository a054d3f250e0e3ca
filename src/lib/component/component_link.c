/* SPDX-License-Identifier: MIT */
/*
 * The host's side of component.h.
 *
 * A link outlives its component, because a component may call fire_dynamic() although its stop()
 * has returned. A detached link is used again for another component.
 */
#include <ringpipe/component_host.h>
#include <ringpipe/event.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/sized.h"
#include "base/thread.h"
#include "component/dynamic_events.h"
#include "core/core.h"
#include "core/own.h"

#define POLL_NS 1000000
#define POLLS 1000

/* One role of a component: the provider that the host gave for it. */
struct component_role {
	struct rp_component_link *link;
	uint32_t number;		/* enum rp_component_provider */
	struct rp_provider *provider;	/* or NULL */
	struct rp_dynamic_events *dynamic;
	struct rp_watcher watcher;
};

struct rp_component_link {
	struct cds_list_head node;	/* in `attached` or `unused` */
	rp_component_entry entry;
	struct component_role roles[RP_COMPONENT_PROVIDERS];
	struct rp_component component;
	struct rp_component_host host;
	/*
	 * A writer and the thread that detaches form a Dekker pair: the writer increments
	 * `writers` and then reads `is_attached`, the other thread stores and reads in the reverse
	 * order.
	 */
	uint32_t is_attached;
	uint32_t writers;		/* threads inside fire_dynamic() */
	uint32_t is_detaching;
};

static CDS_LIST_HEAD(attached);		/* under rp_core.lock, as the next one */
static CDS_LIST_HEAD(unused);

static int write_dynamic(struct rp_event *event, const char *name, const void *payload,
			 uint32_t payload_bytes)
{
	const uint16_t count = (uint16_t)payload_bytes;
	const struct rp_part parts[] = {
		{ name, strnlen(name, RP_NAME_MAX) }, { "", 1 }, { &count, sizeof(count) },
		{ payload, payload_bytes },
	};

	if (!rp_event_enabled(event))
		return 0;
	/* More is longer than RP_PAYLOAD_MAX, and the sessions count the event as lost. */
	return rp_event_write(event, parts, payload_bytes ? 4 : 3);
}

static int fire_dynamic(void *context, uint32_t provider, uint32_t level, const char *name,
			const void *payload, uint32_t payload_bytes)
{
	struct rp_component_link *link = context;
	int ret = -EPIPE;

	if (provider >= RP_COMPONENT_PROVIDERS || level >= RP_LEVELS || !name ||
	    (!payload && payload_bytes))
		return -EINVAL;
	rp_add_seq_cst(&link->writers, 1);
	if (rp_load_seq_cst(&link->is_attached)) {
		const struct rp_dynamic_events *dynamic = link->roles[provider].dynamic;

		ret = dynamic ? write_dynamic(dynamic->events[level], name, payload,
					      payload_bytes) : 0;
	}
	rp_add_seq_cst(&link->writers, (uint32_t)-1);
	return ret;
}

static void report_state(struct rp_provider *provider, const struct rp_provider_state *state,
			 void *data)
{
	const struct component_role *role = data;
	const struct rp_component *component = &role->link->component;
	uint32_t levels = state->enabled ? (2u << state->level) - 1 : 0;

	(void)provider;
	component->control(component->data, role->number, state->keywords, levels);
}

/*
 * Take a link without roles for a component. Return: 0; -EEXIST: the component is attached;
 * -ENOMEM.
 */
static int take_link(rp_component_entry entry, struct rp_component_link **ret_link)
{
	struct rp_component_link *link;
	int ret = -EEXIST;

	pthread_mutex_lock(&rp_core.lock);
	cds_list_for_each_entry(link, &attached, node) {
		if (link->entry == entry)
			goto out;
	}
	ret = -ENOMEM;
	if (!cds_list_empty(&unused)) {
		link = cds_list_first_entry(&unused, struct rp_component_link, node);
		cds_list_del(&link->node);
	} else {
		link = calloc(1, sizeof(*link));
		if (!link)
			goto out;
	}
	link->entry = entry;
	cds_list_add(&link->node, &attached);
	*ret_link = link;
	ret = 0;
out:
	pthread_mutex_unlock(&rp_core.lock);
	return ret;
}

/*
 * Wait until no thread uses the link, and make it available for another component. A thread that
 * left fire_dynamic() by siglongjmp(3), or that a fork left in the parent, remains counted. Then
 * the link and its events stay as they are: another thread may really be inside.
 */
static void retire_link(struct rp_component_link *link)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	unsigned int polls = 0;

	rp_store_seq_cst(&link->is_attached, 0);
	while (rp_load_seq_cst(&link->writers) && polls++ < POLLS)
		nanosleep(&pause, NULL);
	for (uint32_t i = 0; i < RP_COMPONENT_PROVIDERS; i++)
		rp_dynamic_events_put(link->roles[i].dynamic, polls > POLLS);
	pthread_mutex_lock(&rp_core.lock);
	cds_list_del(&link->node);
	/* At the end: a component that still writes would use the link of a later component. */
	if (polls <= POLLS)
		cds_list_add_tail(&link->node, &unused);
	pthread_mutex_unlock(&rp_core.lock);
}

static void stop_component(struct rp_component_link *link)
{
	const struct rp_component *component = &link->component;

	for (uint32_t i = 0; i < RP_COMPONENT_PROVIDERS && component->control; i++)
		component->control(component->data, i, 0, 0);
	if (component->stop)
		component->stop(component->data);
}

/*
 * Call the component's entry. A component whose struct is too short may have started threads, so it
 * is stopped by the functions that it wrote into the struct, which was zero before.
 */
static int start_component(struct rp_component_link *link, rp_component_entry entry)
{
	int ret;

	link->component = (struct rp_component){ .size = sizeof(link->component) };
	ret = entry(&link->host, &link->component);
	if (ret != 0 || link->component.size >= RP_COMPONENT_SIZE_V1)
		return ret;
	stop_component(link);
	return -EINVAL;
}

/* Begin or end to report the states of the providers. */
static int watch_providers(struct rp_component_link *link, bool watch)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < RP_COMPONENT_PROVIDERS; i++) {
		struct component_role *role = &link->roles[i];

		if (!role->provider || !link->component.control)
			continue;
		ret = watch ? rp_provider_watch(role->provider, &role->watcher) :
		      rp_provider_unwatch(role->provider, &role->watcher);
	}
	return ret;
}

static int attach(struct rp_component_link *link, rp_component_entry entry)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < RP_COMPONENT_PROVIDERS; i++) {
		struct component_role *role = &link->roles[i];

		if (role->provider)
			ret = rp_dynamic_events_get(role->provider, &role->dynamic);
	}
	if (ret != 0)
		return ret;
	rp_store_seq_cst(&link->is_attached, 1);
	ret = start_component(link, entry);
	if (ret != 0)
		return ret;
	ret = watch_providers(link, true);
	if (ret != 0) {
		(void)watch_providers(link, false);
		stop_component(link);
	}
	return ret;
}

RP_PUBLIC int rp_component_attach(rp_component_entry entry,
				  const struct rp_component_options *options,
				  struct rp_component_link **ret_link)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct rp_component_options own;
	struct rp_component_link *link;
	int ret;

	if (!entry || !ret_link ||
	    rp_sized_read(&own, sizeof(own), RP_COMPONENT_OPTIONS_SIZE_V1, options) != 0 ||
	    !own.provider || own.provider == own.private_provider)
		return -EINVAL;
	ret = take_link(entry, &link);
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < RP_COMPONENT_PROVIDERS; i++)
		link->roles[i] = (struct component_role){
			.link = link, .number = i,
			.watcher = { .callback = report_state, .data = &link->roles[i] },
		};
	rp_store_seq_cst(&link->is_detaching, 0);
	link->roles[RP_COMPONENT_DEFAULT].provider = own.provider;
	link->roles[RP_COMPONENT_PRIVATE].provider = own.private_provider;
	link->host = (struct rp_component_host){
		.size = sizeof(link->host),
		.context = link,
		.data = own.data,
		.events = own.events,
		.fire_dynamic = fire_dynamic,
	};
	ret = attach(link, entry);
	if (ret != 0) {
		retire_link(link);
		return ret;
	}
	*ret_link = link;
	return 0;
}

RP_PUBLIC int rp_component_detach(struct rp_component_link *link)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	int ret;

	if (!link)
		return 0;
	/* The component may call this function in the control() and the stop() that follow. */
	if (rp_exchange_seq_cst(&link->is_detaching, 1))
		return -EDEADLK;
	ret = watch_providers(link, false);
	if (ret != 0) {
		/* The calls for the other provider are as before. */
		(void)watch_providers(link, true);
		rp_store_seq_cst(&link->is_detaching, 0);
		return ret;
	}
	stop_component(link);
	retire_link(link);
	return 0;
}
