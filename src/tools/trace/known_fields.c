/* SPDX-License-Identifier: MIT */
#include "tools/trace/known_fields.h"

#include <string.h>

#include "tools/trace/system_event.h"

#define NUMBER(name_) { .name = name_, .type = RP_TYPE_U64 }
#define TEXT(name_) { .name = name_, .type = RP_TYPE_STRING, .encoding = RP_READER_COUNTED }

static const struct rp_reader_field process_fields[] = {
	NUMBER("NamespaceId"), TEXT("Name"), TEXT("NamespaceName"),
};

static const struct rp_reader_field mapping_fields[] = {
	NUMBER("Id"), NUMBER("StartAddress"), NUMBER("EndAddress"), NUMBER("FileOffset"),
	TEXT("FileName"), NUMBER("MetadataId"),
};

static const struct rp_reader_field function_fields[] = {
	NUMBER("Id"), NUMBER("MappingId"), NUMBER("StartAddress"), NUMBER("EndAddress"),
	TEXT("Name"),
};

static const struct rp_reader_field metadata_fields[] = {
	NUMBER("Id"), TEXT("SymbolMetadata"), TEXT("VersionMetadata"),
};

static const struct rp_reader_field value_fields[] = { NUMBER("Value") };

#define FIELDS(fields_) { fields_, sizeof(fields_) / sizeof(fields_[0]) }

struct known_fields {
	const struct rp_reader_field *fields;
	uint32_t count;
};

static const struct known_fields system_events[] = {
	[RP_SYSTEM_EXISTING_PROCESS] = FIELDS(process_fields),
	[RP_SYSTEM_PROCESS_CREATE] = FIELDS(process_fields),
	[RP_SYSTEM_MAPPING] = FIELDS(mapping_fields),
	[RP_SYSTEM_FUNCTION] = FIELDS(function_fields),
	[RP_SYSTEM_METADATA] = FIELDS(metadata_fields),
};

static const struct known_fields sample_event = FIELDS(value_fields);

/* Return: NULL: they are unknown. */
static const struct known_fields *find_known(const struct rp_reader_type *type)
{
	if (strncmp(type->provider, "Universal.", strlen("Universal.")) != 0)
		return NULL;
	if (!strcmp(type->provider, RP_SYSTEM_PROVIDER))
		return type->id < sizeof(system_events) / sizeof(system_events[0]) ?
		       &system_events[type->id] : NULL;
	return !strcmp(type->provider, "Universal.Events") &&
	       (!strcmp(type->name, "cpu") || !strcmp(type->name, "cswitch")) ?
	       &sample_event : NULL;
}

const struct rp_reader_field *rp_known_fields(const struct rp_reader_type *type,
					      uint32_t *ret_count)
{
	const struct known_fields *known = type->field_count ? NULL : find_known(type);

	*ret_count = known ? known->count : type->field_count;
	return known ? known->fields : type->fields;
}

const struct rp_reader_event *rp_known_decode(struct rp_known_event *known,
					      const struct rp_reader_event *event)
{
	uint32_t count;
	const struct rp_reader_field *fields = rp_known_fields(event->type, &count);

	if (count == event->type->field_count)
		return event;
	known->type = *event->type;
	known->type.fields = fields;
	known->type.field_count = count;
	known->event = *event;
	known->event.type = &known->type;
	return &known->event;
}
