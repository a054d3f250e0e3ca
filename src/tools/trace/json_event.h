/* SPDX-License-Identifier: MIT */
/*
 * Decodes JSON events, those of <ringpipe/json_events.h>: a decoded event has the members of its
 * text as fields, after the field `source`.
 *
 *  - An object is a struct, and an array is an array if its elements have one type.
 *  - Other arrays, and values below RP_JSON_LEVELS_MAX levels, stay JSON texts.
 *  - `null` is a double that is not a number, which tools print as null.
 *  - A text that is no object is the field `value`.
 *  - If a member has the name `source`, the source of the event is the field `…source`.
 *  - An invalid text stays in the field `json`. The field `…invalid` states the reason.
 */
#ifndef RP_TOOL_JSON_EVENT_H
#define RP_TOOL_JSON_EVENT_H

#include <stdbool.h>
#include <stddef.h>

#include <ringpipe/reader.h>

#include "base/chains.h"
#include "nettrace/outbuf.h"

#define RP_JSON_LEVELS_MAX 8u
#define RP_JSON_INVALID "…invalid"

/*
 * The types of decoded events, one for each type of event and each set of members. A zeroed struct
 * is valid. Texts that have more than RP_JSON_TYPES_MAX sets of members stay texts.
 */
#define RP_JSON_TYPES_MAX 4096u

struct rp_json_decoder {
	struct rp_chains types;
	size_t type_count, type_bytes;
	bool is_full;			/* a text stayed one because of the limit */
	struct rp_reader_event event;
	struct rp_outbuf text;		/* the source and the JSON text */
	struct rp_outbuf payload;	/* of `event` */
	struct rp_outbuf shape;		/* names and types of its fields */
};

/* Whether events of this type are JSON events that are not decoded. */
bool rp_json_event_is(const struct rp_reader_type *type);

/*
 * Decode a JSON event.
 *
 * Return: the decoded event, valid until the next call, whose type is valid until
 * rp_json_decoder_fini(); `event` itself if it is another event; NULL: no memory.
 */
const struct rp_reader_event *rp_json_decode(struct rp_json_decoder *decoder,
					     const struct rp_reader_event *event);

/* Free all types. The decoder may be used again. */
void rp_json_decoder_fini(struct rp_json_decoder *decoder);

#endif
