/* SPDX-License-Identifier: MIT */
/*
 * The fields of a trace in another version or form: their descriptions, and payloads that are
 * rewritten to match.
 */
#ifndef RP_TOOL_TRACE_FIELDS_H
#define RP_TOOL_TRACE_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#include "nettrace/outbuf.h"

enum rp_trace_form {
	RP_TRACE_FORM_V4,
	RP_TRACE_FORM_V6,		/* all fields as they are */
	RP_TRACE_FORM_COMPACT,		/* version 6: text in UTF-8, integers of variable length */
	RP_TRACE_FORM_PLAIN,		/* version 6 with the types of version 4 */
};

/* Values that an event's labels may replace. */
struct rp_trace_attributes {
	uint64_t keywords;
	uint32_t level, opcode, version;
};

/*
 * Append the definition of a type: a blob of version 4, or a row of version 6. A failure is in
 * out->failed. Return: 0; -EMSGSIZE: names that version 6 cannot have.
 */
int rp_trace_put_definition(struct rp_outbuf *out, enum rp_trace_form form, uint32_t metadata_id,
			    const struct rp_reader_type *type,
			    const struct rp_trace_attributes *attributes);

/* Return: whether payloads of the type differ in the form. */
bool rp_trace_is_rewritten(const struct rp_reader_type *type, enum rp_trace_form form);

/*
 * Append an event's payload in the form. The output is as incomplete as the payload, if that is
 * shorter than its fields. Return: whether it is whole; false: text was cut at 65,535 bytes, or the
 * payload at 4 MB. A failure is in out->failed.
 */
bool rp_trace_put_payload(struct rp_outbuf *out, enum rp_trace_form form,
			  const struct rp_reader_event *event);

#endif
