/* SPDX-License-Identifier: MIT */
#include "tools/formats/shown_event.h"

#include <stdio.h>
#include <string.h>

#include "tools/trace/counter_sample.h"
#include "tools/trace/dotnet.h"
#include "tools/trace/system_event.h"

const char *rp_shown_event_name(const struct rp_reader_type *type, char *buffer)
{
	const char *name = *type->name ? type->name : rp_dotnet_event_name(type);

	if (*name)
		return name;
	snprintf(buffer, RP_SHOWN_NAME, "event %u", (unsigned int)type->id);
	return buffer;
}

bool rp_shown_as_counter(const struct rp_reader_type *type)
{
	return !strcmp(type->provider, RP_COUNTER_METRICS_PROVIDER) ||
	       !strcmp(type->name, "EventCounters");
}

bool rp_shown_not_at_all(const struct rp_reader_type *type)
{
	return type->id >= RP_SYSTEM_MAPPING && type->id <= RP_SYSTEM_METADATA &&
	       !strcmp(type->provider, RP_SYSTEM_PROVIDER);
}

struct rp_shown_type *rp_shown_type_of(struct rp_reader_type *type,
				       struct rp_shown_type *(*make)(void *format,
								     struct rp_reader_type *type,
								     const char *name),
				       void *format)
{
	struct rp_shown_type *made = type->user;
	char name[RP_SHOWN_NAME];

	if (made)
		return made;
	made = make(format, type, rp_shown_event_name(type, name));
	if (!made)
		return NULL;
	made->is_counter = rp_shown_as_counter(type);
	made->is_omitted = rp_shown_not_at_all(type);
	type->user = made;
	return made;
}
