/* SPDX-License-Identifier: MIT */
/* JSON texts from traces, which anything may have written. */
#ifndef RP_TOOL_JSON_TEXT_H
#define RP_TOOL_JSON_TEXT_H

#include <stddef.h>

#include "tools/cli/json.h"

/* The longest text in bytes, and the deepest nesting of its arrays and objects. */
#define RP_JSON_TEXT_MAX (1u << 20)
#define RP_JSON_DEPTH_MAX 64u

/*
 * Parse a JSON text as RFC 8259 defines it. An integer that needs more than 64 bits becomes a
 * double. If an object has several members of one name, the last one counts.
 * @text: `bytes` bytes, UTF-8; bytes that are not UTF-8 and NULs are errors.
 * @ret_value: for json_object_put(). NULL is the value `null`.
 * @ret_reason: after -EBADMSG, why the text is not valid; with a NUL, up to `reason_size` bytes.
 *
 * Return: 0; -EBADMSG: the text is not valid, or exceeds a limit; -ENOMEM.
 */
int rp_json_text_parse(const char *text, size_t bytes, struct json_object **ret_value,
		       char *ret_reason, size_t reason_size);

#endif
