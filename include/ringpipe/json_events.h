/* SPDX-License-Identifier: MIT */
/*
 * Write JSON texts as events, for a producer whose fields are unknown when the program is compiled,
 * such as a script or a plugin:
 *
 *	RP_PROVIDER(shop, "Shop-Orders");
 *	RP_JSON_EVENTS(shop);
 *
 *	RP_JSON(shop, RP_LEVEL_INFORMATIONAL, "checkout", "{\"order\":5,\"user\":{\"id\":7}}");
 *
 * RP_JSON_EVENTS declares one event for each level. RP_JSON evaluates its arguments only while a
 * session or another tracer wants the event of that level. The library copies the text and does not
 * parse it. The commands of ringpipe show the members of the text as fields of the event, next to
 * the field `source`. They do so for every event, even a dynamic one, whose name begins with
 * "json_" and whose fields are the two strings `source` and `json`.
 *
 * `ringpipe report FILE json` lists the fields that the texts of each source had, and prints the
 * RP_EVENT for them. A program may write both forms at the same time. An expression such as
 * `order == 5` selects the events of both forms.
 */
#ifndef RINGPIPE_JSON_EVENTS_H
#define RINGPIPE_JSON_EVENTS_H

#include <string.h>

#include <ringpipe/event.h>
#include <ringpipe/types.h>

/*
 * Declares the events that RP_JSON writes, in a source file or in a header: json_critical,
 * json_error, json_warning, json_informational and json_verbose. Each has the name of the source
 * and the JSON text as fields, and an id that is derived from its name.
 */
#define RP_JSON_EVENTS(provider) \
	RP_JSON_EMIT_(provider, RP_LEVEL_CRITICAL, json_critical); \
	RP_JSON_EMIT_(provider, RP_LEVEL_ERROR, json_error); \
	RP_JSON_EMIT_(provider, RP_LEVEL_WARNING, json_warning); \
	RP_JSON_EMIT_(provider, RP_LEVEL_INFORMATIONAL, json_informational); \
	RP_JSON_EMIT_(provider, RP_LEVEL_VERBOSE, json_verbose)

/*
 * Write a JSON text. `level` is the name of a constant of enum rp_level, from RP_LEVEL_CRITICAL to
 * RP_LEVEL_VERBOSE. `source` and `json` are const char *, UTF-8; NULL is "". In C++, with
 * ringpipe.hpp, `source` may also be a std::string, and `json` anything that converts to
 * std::string_view. An event larger than RP_PAYLOAD_MAX is lost, and the session counts it.
 *
 * Context: any thread, any signal handler.
 */
#define RP_JSON(provider, level, source, json) \
	do { \
		if (__builtin_expect(provider##_json_##level##_enabled_(), 0)) \
			provider##_json_text_##level##_(source, json); \
	} while (0)

/* The same with a text of `json_bytes` bytes, which need not end with a NUL. */
#define RP_JSON_N(provider, level, source, json, json_bytes) \
	do { \
		if (__builtin_expect(provider##_json_##level##_enabled_(), 0)) \
			provider##_json_##level##_(source, json, json_bytes); \
	} while (0)

#define RP_JSON_EMIT_(provider, level, event) \
	RP_EVENT(provider, event, RP_EVENT_ID_AUTO, level, 0, RP_STRING(source), \
		 RP_STRING_N(json)); \
	RP_OUT_OF_LINE_ __attribute__((cold)) void \
	provider##_json_##level##_(const char *source, const char *json, size_t json_bytes) \
	{ \
		(void)provider##_##event(source, json, json_bytes); \
	} \
	RP_OUT_OF_LINE_ __attribute__((cold)) void \
	provider##_json_text_##level##_(const char *source, const char *json) \
	{ \
		provider##_json_##level##_(source, json, json ? strlen(json) : 0); \
	} \
	RP_INLINE_ int provider##_json_##level##_enabled_(void) \
	{ \
		return provider##_##event##_enabled(); \
	} \
	RP_SEMICOLON_

#endif
