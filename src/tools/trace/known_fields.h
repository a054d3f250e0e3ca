/* SPDX-License-Identifier: MIT */
/*
 * The fields of the events of Universal.System and Universal.Events. Traces do not describe them,
 * and readers know them by the ids or names of the events.
 */
#ifndef RP_TOOL_KNOWN_FIELDS_H
#define RP_TOOL_KNOWN_FIELDS_H

#include <ringpipe/reader.h>

/* An event with the fields that its trace does not describe. A zeroed struct is valid. */
struct rp_known_event {
	struct rp_reader_type type;
	struct rp_reader_event event;
};

/* Return: the fields that the trace describes, or else the known ones, or NULL. */
const struct rp_reader_field *rp_known_fields(const struct rp_reader_type *type,
					      uint32_t *ret_count);

/*
 * Give an event its known fields.
 *
 * Return: the event with the fields, in `known`; `event` itself if its type has fields, or if none
 * are known.
 */
const struct rp_reader_event *rp_known_decode(struct rp_known_event *known,
					      const struct rp_reader_event *event);

#endif
