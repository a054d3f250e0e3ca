/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>

#include "tools/cli/json.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"

struct json_object *rp_json_string(const char *text)
{
	char *clean = text ? rp_text_clean(text, false) : NULL;
	struct json_object *value = clean ? json_object_new_string(clean) : NULL;

	free(clean);
	return value;
}

void rp_json_put(FILE *stream, struct json_object *value, int style)
{
	const char *text = json_object_to_json_string_ext(value, style);

	/* json-c escapes only the characters below a blank. */
	for (; *text; text++) {
		if (*text == 0x7f)
			fputs("\\u007f", stream);
		else if ((uint8_t)*text == 0xc2 && (uint8_t)text[1] < 0xa0)
			fprintf(stream, "\\u%04x", (uint8_t)*++text);
		else
			putc(*text, stream);
	}
}

int rp_json_print(struct json_object *value)
{
	const int style = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
			  JSON_C_TO_STRING_NOSLASHESCAPE;
	const int status = value ? RP_EXIT_OK : RP_EXIT_FAILURE;

	if (value) {
		rp_json_put(stdout, value, style);
		putchar('\n');
	} else {
		rp_tool_error("out of memory");
	}
	json_object_put(value);
	return status;
}
