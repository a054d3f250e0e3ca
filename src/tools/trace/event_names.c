/* SPDX-License-Identifier: MIT */
#include "tools/trace/event_names.h"

#include <string.h>

bool rp_event_is_internal(const char *provider, const char *name)
{
	return !strcmp(provider, "Microsoft-DotNETCore-EventPipe") ||
	       !strcmp(name, "EventCounters");
}

bool rp_event_is_own(const char *provider)
{
	return !strcmp(provider, "ringpipe") || !strcmp(provider, "Universal.System") ||
	       !strcmp(provider, "Microsoft-DotNETCore-EventPipe");
}

int rp_event_key_compare(const struct rp_event_key *a, const struct rp_event_key *b)
{
	int order = strcmp(a->provider, b->provider);

	if (!order)
		order = (a->id > b->id) - (a->id < b->id);
	if (!order)
		order = (a->version > b->version) - (a->version < b->version);
	return order ? order : strcmp(a->name, b->name);
}
