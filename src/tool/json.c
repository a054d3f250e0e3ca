/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "tool/json.h"
#include "tool/text.h"
#include "tool/tool.h"

struct json_object *rp_json_string(const char *text)
{
	char *clean = text ? rp_text_clean(text, false) : NULL;
	struct json_object *value = clean ? json_object_new_string(clean) : NULL;

	free(clean);
	return value;
}

int rp_json_print(struct json_object *value)
{
	const int style = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
			  JSON_C_TO_STRING_NOSLASHESCAPE;
	const char *text = value ? json_object_to_json_string_ext(value, style) : NULL;

	if (text)
		puts(text);
	else
		rp_tool_error("out of memory");
	json_object_put(value);
	return text ? RP_EXIT_OK : RP_EXIT_FAILURE;
}
