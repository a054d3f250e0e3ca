/* SPDX-License-Identifier: MIT */
#include "tools/trace/dotnet.h"

#include <string.h>

/* Entries of the same provider and id are sorted by version. */
static const struct {
	const char *provider;
	uint32_t id;
	uint32_t version;
	const char *name;
} rows[] = {
#include "tools/trace/dotnet_names.h"
};

const char *rp_dotnet_event_name(const struct rp_reader_type *type)
{
	const char *name = "";

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].id == type->id && rows[i].version <= type->version &&
		    strcmp(rows[i].provider, type->provider) == 0)
			name = rows[i].name;
	}
	return name;
}
