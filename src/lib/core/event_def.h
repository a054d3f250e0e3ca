/* SPDX-License-Identifier: MIT */
/* The definition of an event, as sinks, exporters and recovery get it. */
#ifndef RP_CORE_EVENT_DEF_H
#define RP_CORE_EVENT_DEF_H

#include <stdint.h>

#include <ringpipe/types.h>

#include "base/event_definition.h"

/* It exists as long as a session may still deliver such an event. */
struct rp_event_def {
	uint32_t index;			/* unique among existing definitions; small */
	uint32_t id;
	uint64_t serial;		/* never reused, unlike the index */
	const char *provider;
	const char *name;
	const char *message;		/* or NULL */
	const struct rp_field *fields;
	uint64_t keywords;
	uint16_t field_count;
	uint8_t version;
	uint8_t level;
	uint8_t opcode;
	uint8_t flags;
	uint16_t wire_field_count;	/* instead of field_count, with RP_EVENT_WIRE */
	uint64_t fields_hash;
};

/*
 * Return the definition as the data that a trace contains. Recovery stores it before the event is
 * enabled, so the conversion cannot be in a higher layer.
 */
static inline struct rp_definition rp_event_def_plain(const struct rp_event_def *def)
{
	return (struct rp_definition){
		.provider = def->provider,
		.name = def->name,
		.id = def->id,
		.version = def->version,
		.level = def->level,
		.opcode = def->opcode,
		.keywords = def->keywords,
		.fields = def->fields,
		.field_count = def->field_count + def->wire_field_count,
		.is_wire = def->wire_field_count != 0,
	};
}

/*
 * Keep a definition alive after the delivery of its last event, until rp_def_unpin() was called as
 * often. Takes the engine's lock.
 */
void rp_def_pin(const struct rp_event_def *def);
void rp_def_unpin(const struct rp_event_def *def);

/*
 * The definitions of ringpipe's own events: EventsLost, PayloadsCut, Snapshot, Triggered,
 * CoarseTime, ProviderMissing, StacksCut, EventsSkipped. Sinks pass these events on and do not
 * count them.
 */
#define RP_DEF_LOST_INDEX 0u
#define RP_DEF_CUT_INDEX 1u
#define RP_DEF_SNAPSHOT_INDEX 2u
#define RP_DEF_TRIGGERED_INDEX 3u
#define RP_DEF_COARSE_INDEX 4u
#define RP_DEF_MISSING_INDEX 5u
#define RP_DEF_STACKS_INDEX 6u
#define RP_DEF_SKIPPED_INDEX 7u
#define RP_DEF_OWN_COUNT 8u

#endif
