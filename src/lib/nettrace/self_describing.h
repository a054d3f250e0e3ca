/* SPDX-License-Identifier: MIT */
/*
 * Payloads that describe themselves, in the format of <ringpipe/detail/component_payload.h>, and
 * the events that contain them: those of component_link.c with the fields `name` and `payload`.
 */
#ifndef RP_NETTRACE_SELF_DESCRIBING_H
#define RP_NETTRACE_SELF_DESCRIBING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/field.h>
#include <ringpipe/types.h>

#include "base/cursor.h"
#include "base/event_definition.h"
#include "nettrace/outbuf.h"

struct described_type;
struct rp_encoder;
struct rp_encoder_event;

/* A walk over the fields of a payload. */
struct rp_self_describing {
	struct rp_cursor rest;
	uint16_t left;
	bool is_cut;	/* fields were left out */
};

/*
 * Begin a walk. The function checks the complete payload.
 * Return: whether the payload describes itself.
 */
bool rp_self_describing_begin(struct rp_self_describing *walk, const void *payload,
			      size_t payload_bytes);

/* Return: whether there is another field. Its name is in the payload. */
bool rp_self_describing_next(struct rp_self_describing *walk, struct rp_field *ret_field,
			     struct rp_value *ret_value);

#define RP_SELF_DESCRIBING_TYPES 1024u

/* The types of an encoder's stream that come from payloads. A zeroed struct has none. */
struct rp_self_describing_types {
	struct described_type **list;
	size_t capacity;
	uint32_t count;
	struct rp_outbuf values;	/* of the present event */
	struct rp_outbuf schema;	/* all but the values */
};

/*
 * Make the event that a raw event describes, with its time, thread, stack and ids. There is none
 * for other payloads, for names that no event can have, and after RP_SELF_DESCRIBING_TYPES types,
 * because names may come from data. Return: 1; 0: there is none; -ENOMEM.
 * @raw: provider, level and keywords of the raw event.
 * @ret_event: valid until the next call.
 */
int rp_self_describing_get(struct rp_self_describing_types *types, struct rp_encoder *encoder,
			   const struct rp_definition *raw, const struct rp_encoder_event *event,
			   struct rp_encoder_event *ret_event);

/* Return: the bytes that the types have allocated. */
size_t rp_self_describing_memory(const struct rp_self_describing_types *types);

void rp_self_describing_fini(struct rp_self_describing_types *types);

#endif
