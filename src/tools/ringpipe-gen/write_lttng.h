/* SPDX-License-Identifier: MIT */
/* How the fields of a manifest become fields of LTTng's tracepoints. */
#ifndef RP_TOOL_WRITE_LTTNG_H
#define RP_TOOL_WRITE_LTTNG_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/ringpipe-gen/manifest.h"

enum rp_lttng_form {
	RP_LTTNG_INTEGER,
	RP_LTTNG_FLOAT,
	RP_LTTNG_TEXT,			/* UTF-8 with a NUL */
	RP_LTTNG_CHARACTERS,		/* text of a known size */
	RP_LTTNG_GUID,			/* 16 bytes */
	RP_LTTNG_SEQUENCE,		/* integers */
	RP_LTTNG_LAYOUT,		/* the bytes of ringpipe's payload, as a sequence */
};

struct rp_lttng_shape {
	enum rp_lttng_form form;
	const char *type;		/* in C, of the value or of an element */
	bool is_hexadecimal;
	unsigned int units;		/* elements of LTTng's sequence per element of the field */
};

struct rp_lttng_shape rp_lttng_shape(const struct rp_manifest_field *field);

#endif
