/* SPDX-License-Identifier: MIT */
/* An event's fields as Perfetto's debug annotations. */
#ifndef RP_TOOL_PERFETTO_FIELDS_H
#define RP_TOOL_PERFETTO_FIELDS_H

#include <ringpipe/reader.h>

#include "tools/formats/format_out.h"

/* The members of DebugAnnotation. */
enum rp_perfetto_value {
	RP_PERFETTO_BOOL = 2, RP_PERFETTO_UINT = 3, RP_PERFETTO_INT = 4, RP_PERFETTO_DOUBLE = 5,
	RP_PERFETTO_TEXT = 6, RP_PERFETTO_POINTER = 7, RP_PERFETTO_NAME = 10,
	RP_PERFETTO_DICT = 11, RP_PERFETTO_ARRAY = 12,
};

/* Write each field as one message with the number `field`, into memory. */
void rp_perfetto_put_fields(struct rp_format_out *out, uint32_t field,
			    const struct rp_reader_event *event);

#endif
