/* SPDX-License-Identifier: MIT */
/* The names of events: how lists sort them, and which of them only tools read. */
#ifndef RP_TOOL_EVENT_NAMES_H
#define RP_TOOL_EVENT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/reader.h>

/* The sort key of events in lists: provider, id, version and name. */
struct rp_event_key {
	const char *provider, *name;
	uint32_t id, version;
};

int rp_event_key_compare(const struct rp_event_key *a, const struct rp_event_key *b);

/*
 * Whether the event is only for tools: events of the provider Microsoft-DotNETCore-EventPipe, and
 * EventCounters, which `ringpipe counters` shows.
 */
bool rp_event_is_internal(const char *provider, const char *name);

/* Whether the drain thread, rather than the program, writes the provider's events. */
bool rp_event_is_own(const char *provider);

/*
 * Whether the event describes others, so that a range of time needs it wherever it is: the events
 * of such a provider do, and those that state what a recording of the machine contains.
 */
bool rp_event_describes(const struct rp_reader_type *type);

#endif
