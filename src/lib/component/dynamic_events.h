/* SPDX-License-Identifier: MIT */
/* The events of a provider that contain the dynamic events of its components. */
#ifndef RP_COMPONENT_DYNAMIC_EVENTS_H
#define RP_COMPONENT_DYNAMIC_EVENTS_H

#include <stdbool.h>
#include <sys/types.h>

#include <ringpipe/provider.h>
#include <ringpipe/types.h>
#include <urcu/list.h>

#define RP_LEVELS (RP_LEVEL_VERBOSE + 1)

struct rp_dynamic_events {
	struct cds_list_head node;
	struct rp_provider *provider;
	struct rp_event *events[RP_LEVELS];
	unsigned int users;		/* components of the provider */
	bool is_kept;			/* a writer may remain inside, so no one destroys them */
	/*
	 * The process in which a thread creates or destroys the events; else 0. Another thread
	 * waits for that one, unless it is a thread of the parent.
	 */
	pid_t changing;
};

/*
 * Get the events of a provider, and create them for its first component.
 * Return: 0; -EEXIST: the provider has other events with these names, or those of a component that
 * has left a writer; -ENOMEM.
 */
int rp_dynamic_events_get(struct rp_provider *provider, struct rp_dynamic_events **ret_events);

/*
 * Release the events, which the provider's last component destroys.
 * @events: NULL is allowed.
 * @keep: a writer may still be inside an event.
 */
void rp_dynamic_events_put(struct rp_dynamic_events *events, bool keep);

#endif
