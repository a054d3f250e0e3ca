/* SPDX-License-Identifier: MIT */
#include "tools/trace/event_names.h"

#include <string.h>

#include "tools/trace/dotnet_method.h"
#include "tools/trace/machine_clock.h"

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

bool rp_event_describes(const struct rp_reader_type *type)
{
	static const char *const names[] = {
		RP_MACHINE_EVENT_DESCRIPTION, RP_MACHINE_EVENT_CLOCK, RP_MACHINE_EVENT_GROUPS,
		RP_MACHINE_EVENT_LOSS,
	};

	if (rp_event_is_own(type->provider) || rp_dotnet_is_method(type))
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(type->name, names[i]))
			return !strcmp(type->provider, RP_MACHINE_PROVIDER);
	}
	return false;
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
