/* SPDX-License-Identifier: MIT */
#include "tools/trace/dotnet_method.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "tools/cli/display_text.h"

/* The ids of the events in Microsoft-Windows-DotNETRuntimeRundown. */
enum { METHOD_START_VERBOSE = 143, METHOD_END_VERBOSE = 144 };
/* The id in Microsoft-Windows-DotNETRuntime. */
enum { METHOD_LOAD_VERBOSE = 143 };

bool rp_dotnet_is_method(const struct rp_reader_type *type)
{
	static const char runtime[] = "Microsoft-Windows-DotNETRuntime";

	if ((type->id != METHOD_START_VERBOSE && type->id != METHOD_END_VERBOSE) ||
	    strncmp(type->provider, runtime, sizeof(runtime) - 1) != 0)
		return false;
	if (!type->provider[sizeof(runtime) - 1])
		return type->id == METHOD_LOAD_VERBOSE;
	return !strcmp(type->provider + sizeof(runtime) - 1, "Rundown");
}

/* Return: a text for free(); NULL: the payload is cut, and the cursor has failed, or no memory. */
static char *take_text(struct rp_cursor *payload)
{
	const uint8_t *text;
	size_t units;

	if (rp_cursor_string16(payload, &text, &units) == 0)
		return rp_text_from_utf16(text, units);
	rp_cursor_fail(payload);
	return NULL;
}

/* A signature states the type of the result, and the types of the arguments in parentheses. */
static char *join(const char *class_name, const char *name, const char *signature)
{
	const char *arguments = strchr(signature, '(');
	char *text;

	if (asprintf(&text, "%s%s%s%s", class_name, *class_name ? "." : "", name,
		     arguments ? arguments : "") < 0)
		return NULL;
	return text;
}

int rp_dotnet_method_read(const struct rp_reader_event *event, struct rp_dotnet_method *ret_method)
{
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	char *class_name, *name = NULL, *signature = NULL;
	uint64_t method, module, start;
	uint32_t bytes, token, flags;
	int ret;

	if (rp_cursor_u64(&payload, &method) || rp_cursor_u64(&payload, &module) ||
	    rp_cursor_u64(&payload, &start) || rp_cursor_u32(&payload, &bytes) ||
	    rp_cursor_u32(&payload, &token) || rp_cursor_u32(&payload, &flags) || !bytes ||
	    start + bytes - 1 < start)
		return -EBADMSG;
	class_name = take_text(&payload);
	name = class_name ? take_text(&payload) : NULL;
	signature = name ? take_text(&payload) : NULL;
	ret = signature ? 0 : rp_cursor_failed(&payload) ? -EBADMSG : -ENOMEM;
	if (ret == 0) {
		*ret_method = (struct rp_dotnet_method){
			.start = start, .last = start + bytes - 1,
			.name = join(class_name, name, signature),
		};
		ret = ret_method->name ? 0 : -ENOMEM;
	}
	free(class_name);
	free(name);
	free(signature);
	return ret;
}
