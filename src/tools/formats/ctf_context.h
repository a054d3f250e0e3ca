/* SPDX-License-Identifier: MIT */
/* The context of each event of a CTF trace: all that an event has besides its fields. */
#ifndef RP_TOOL_CTF_CONTEXT_H
#define RP_TOOL_CTF_CONTEXT_H

#include <babeltrace2/babeltrace.h>

#include <ringpipe/reader.h>

#include "tools/formats/format_out.h"

/* Properties of an event that struct rp_reader_event does not contain. */
struct rp_ctf_about {
	uint64_t process;
	uint32_t pointer_bytes;
	bool is_truncated;		/* its payload is too short for its fields */
};

/* Return: the class of the context, which the caller puts; NULL: no memory. */
bt_field_class *rp_ctf_context_class(bt_trace_class *trace);

/* Set the context of an event. @text: space for texts. Return: 0; -ENOMEM. */
int rp_ctf_context_set(bt_field *context, const struct rp_reader_event *event,
		       const struct rp_ctf_about *about, struct rp_format_out *text);

#endif
