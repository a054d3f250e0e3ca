/* SPDX-License-Identifier: MIT */
/*
 * Attributes of the OpenTelemetry protocol (OTLP) in JSON: {"key":KEY,"value":{TYPE:VALUE}}.
 *
 * Source: opentelemetry/proto/common/v1/common.proto of
 * github.com/open-telemetry/opentelemetry-proto, and the JSON mapping of protocol buffers: 64-bit
 * integers are strings, bytes are base64.
 */
#ifndef RP_TOOL_OTLP_VALUES_H
#define RP_TOOL_OTLP_VALUES_H

#include <ringpipe/reader.h>

#include "tools/formats/format_out.h"
#include "tools/trace/attribute_table.h"

/*
 * Each of these functions first writes a comma, unless `out` is at the place `begin`. `out` has no
 * output, so that all of it is in its buffer.
 */
void rp_otlp_text(struct rp_format_out *out, size_t begin, const char *key, const char *text);
void rp_otlp_i64(struct rp_format_out *out, size_t begin, const char *key, int64_t number);
void rp_otlp_true(struct rp_format_out *out, size_t begin, const char *key);
/* Write an attribute of a process, with its type. */
void rp_otlp_attribute(struct rp_format_out *out, size_t begin, const struct rp_attribute *row);

/* Write the GUID as a string, or nothing if it is zero. */
void rp_otlp_guid(struct rp_format_out *out, size_t begin, const char *key,
		  const struct rp_guid *guid);

/*
 * Write an attribute for each field of the event, and for each of its labels. Keys are unique: the
 * key of the second field of a name begins with `field` and its number.
 * @taken: the type whose fields have attributes already; the key of a field that it has, too, and
 *	that of each label begins with `stop.`. NULL: none.
 */
void rp_otlp_fields(struct rp_format_out *out, size_t begin, const struct rp_reader_event *event,
		    const struct rp_reader_type *taken);

#endif
