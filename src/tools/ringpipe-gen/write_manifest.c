/* SPDX-License-Identifier: MIT */
/*
 * A manifest of declared events. Declarations have no names of keywords, tasks and opcodes, so
 * keywords and opcodes are named after their values. Payloads are described as a trace has them.
 */
#include "tools/ringpipe-gen/write_manifest.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <ringpipe/event.h>

#include "tools/ringpipe-gen/write_c.h"

static const char *const in_types[] = {
	[RP_TYPE_BOOL] = "win:Boolean", [RP_TYPE_CHAR] = "win:UInt16", [RP_TYPE_I8] = "win:Int8",
	[RP_TYPE_U8] = "win:UInt8", [RP_TYPE_I16] = "win:Int16", [RP_TYPE_U16] = "win:UInt16",
	[RP_TYPE_I32] = "win:Int32", [RP_TYPE_U32] = "win:UInt32", [RP_TYPE_I64] = "win:Int64",
	[RP_TYPE_U64] = "win:UInt64", [RP_TYPE_F32] = "win:Float", [RP_TYPE_F64] = "win:Double",
	[RP_TYPE_POINTER] = "win:Pointer", [RP_TYPE_GUID] = "win:GUID",
	[RP_TYPE_TIME] = "win:FILETIME", [RP_TYPE_STRING] = "win:UnicodeString",
	[RP_TYPE_STRING16] = "win:UnicodeString",
};

/* The events of one provider, and the maps of their fields. */
struct provider {
	const struct rp_binary_events *all;
	const struct rp_binary_event **events;
	size_t count;
	const struct rp_enumeration **maps;
	size_t map_count, map_capacity;
	unsigned int number;		/* of the provider, for the ids of strings */
	bool failed;			/* no memory for the maps */
};

/* Write text as the value of an attribute. Characters that XML 1.0 does not have become '?'. */
static void write_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		const unsigned char byte = (unsigned char)*text;

		if (byte == '&' || byte == '<' || byte == '>' || byte == '"' || byte == '\t' ||
		    byte == '\n' || byte == '\r')
			fprintf(out, "&#%u;", byte);
		else
			fputc(byte < ' ' ? '?' : byte, out);
	}
}

/* Write a message with the insertions of a manifest: {0} becomes %1. */
static void write_message(FILE *out, const char *message)
{
	while (*message) {
		const size_t digits = *message == '{' ? strspn(message + 1, "0123456789") : 0;
		char one[2] = { *message, '\0' };

		if (digits > 0 && digits < 4 && message[digits + 1] == '}') {
			fprintf(out, "%%%lu", strtoul(message + 1, NULL, 10) + 1);
			message += digits + 2;
			/* A digit that follows is not part of the number. */
			if (isdigit((unsigned char)*message))
				fputs("!s!", out);
			continue;
		}
		if (*message == '%')
			fputs("%%", out);
		else if (*message == '\n')
			fputs("%n", out);
		else if (*message == '\t')
			fputs("%t", out);
		else
			write_text(out, one);
		message++;
	}
}

static uint64_t used_keywords(const struct provider *provider)
{
	uint64_t keywords = 0;

	for (size_t i = 0; i < provider->count; i++)
		keywords |= provider->events[i]->keywords;
	return keywords;
}

static void write_keywords(FILE *out, const struct provider *provider)
{
	const uint64_t keywords = used_keywords(provider);

	if (!keywords)
		return;
	fputs("    <keywords>\n", out);
	for (unsigned int bit = 0; bit < 64; bit++) {
		if (keywords >> bit & 1)
			fprintf(out, "     <keyword name=\"Bit%u\" mask=\"%#" PRIx64 "\"/>\n", bit,
				UINT64_C(1) << bit);
	}
	fputs("    </keywords>\n", out);
}

/* Return: the name of an opcode that every manifest has; NULL if it has none. */
static const char *opcode_name(uint8_t opcode)
{
	static const char *const names[] = {
		"win:Info", "win:Start", "win:Stop", "win:DC_Start", "win:DC_Stop",
		"win:Extension", "win:Reply", "win:Resume", "win:Suspend", "win:Send",
	};

	if (opcode == 240)
		return "win:Receive";
	return opcode < sizeof(names) / sizeof(names[0]) ? names[opcode] : NULL;
}

static void write_opcodes(FILE *out, const struct provider *provider)
{
	bool is_used[UINT8_MAX + 1] = { false }, any = false;

	for (size_t i = 0; i < provider->count; i++) {
		const uint8_t opcode = provider->events[i]->opcode;

		is_used[opcode] = !opcode_name(opcode);
		any = any || is_used[opcode];
	}
	if (any)
		fputs("    <opcodes>\n", out);
	for (unsigned int opcode = 0; opcode <= UINT8_MAX; opcode++) {
		if (is_used[opcode])
			fprintf(out, "     <opcode name=\"Opcode%u\" value=\"%u\"/>\n", opcode,
				opcode);
	}
	if (any)
		fputs("    </opcodes>\n", out);
}

/* Add a map, unless one of its name is there: each file with the declaration has a copy. */
static void add_map(struct provider *provider, const struct rp_enumeration *map)
{
	const size_t capacity = 2 * provider->map_capacity + 8;
	const struct rp_enumeration **maps;

	for (size_t i = 0; i < provider->map_count; i++) {
		if (!strcmp(provider->maps[i]->name, map->name))
			return;
	}
	if (provider->map_count == provider->map_capacity) {
		maps = realloc(provider->maps, capacity * sizeof(*maps));
		provider->failed = provider->failed || !maps;
		if (!maps)
			return;
		provider->maps = maps;
		provider->map_capacity = capacity;
	}
	provider->maps[provider->map_count++] = map;
}

static void add_maps(struct provider *provider, const struct rp_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (fields[i].enumeration)
			add_map(provider, fields[i].enumeration);
		add_maps(provider, fields[i].members, fields[i].member_count);
	}
}

/* A manifest has one name for a value; RP_ENUM may have several. */
static bool is_repeated(const struct rp_enumeration *names, size_t number)
{
	for (size_t i = 0; i < number; i++) {
		if ((uint32_t)names->enumerators[i].value ==
		    (uint32_t)names->enumerators[number].value)
			return true;
	}
	return false;
}

static void write_maps(FILE *out, const struct provider *provider)
{
	if (provider->map_count)
		fputs("    <maps>\n", out);
	for (size_t i = 0; i < provider->map_count; i++) {
		const struct rp_enumeration *map = provider->maps[i];

		fputs("     <valueMap name=\"", out);
		write_text(out, map->name);
		fputs("\">\n", out);
		for (size_t j = 0; j < map->count; j++) {
			if (!is_repeated(map, j))
				fprintf(out, "      <map value=\"%#x\" message=\"$(string.map"
					"%u.%zu.%zu)\"/>\n", (uint32_t)map->enumerators[j].value,
					provider->number, i, j);
		}
		fputs("     </valueMap>\n", out);
	}
	if (provider->map_count)
		fputs("    </maps>\n", out);
}

static void write_map_strings(FILE *out, const struct provider *provider)
{
	for (size_t i = 0; i < provider->map_count; i++) {
		for (size_t j = 0; j < provider->maps[i]->count; j++) {
			fprintf(out, "    <string id=\"map%u.%zu.%zu\" value=\"",
				provider->number, i, j);
			write_text(out, provider->maps[i]->enumerators[j].name);
			fputs("\"/>\n", out);
		}
	}
}

/* A member of a struct has a prefix, which may be empty. */
static void write_data(FILE *out, const char *prefix, const struct rp_field *field,
		       const char *type, const char *count)
{
	fprintf(out, "%s<data name=\"", prefix ? "       " : "      ");
	write_text(out, prefix ? prefix : "");
	write_text(out, field->name);
	fprintf(out, "\" inType=\"%s\"", type);
	if (count)
		fprintf(out, " count=\"%s\"", count);
	if (field->enumeration) {
		fputs(" map=\"", out);
		write_text(out, field->enumeration->name);
		fputc('"', out);
	}
	fputs("/>\n", out);
}

static const char *in_type(uint8_t type)
{
	return type < sizeof(in_types) / sizeof(in_types[0]) ? in_types[type] : NULL;
}

/* A manifest has no struct in a struct: the members of the inner one become members. */
static void write_members(FILE *out, const char *prefix, const struct rp_field *members,
			  size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char inner[RP_NAME_MAX + 1];

		if (members[i].type == RP_TYPE_STRUCT) {
			snprintf(inner, sizeof(inner), "%s%s%s", prefix, members[i].name,
				 *members[i].name ? "_" : "");
			write_members(out, inner, members[i].members, members[i].member_count);
		} else if (in_type(members[i].type)) {
			write_data(out, prefix, &members[i], in_type(members[i].type), NULL);
		}
	}
}

static void write_struct(FILE *out, const struct rp_field *field, const char *count)
{
	fputs("      <struct name=\"", out);
	write_text(out, field->name);
	fputc('"', out);
	if (count)
		fprintf(out, " count=\"%s\"", count);
	fputs(">\n", out);
	write_members(out, "", field->members, field->member_count);
	fputs("      </struct>\n", out);
}

/* In a trace, the number of elements precedes an array. */
static void write_array(FILE *out, const struct rp_field *field)
{
	char count[RP_NAME_MAX + 8];

	if (field->element == RP_TYPE_U8) {
		write_data(out, NULL, field, "win:CountedBinary", NULL);
		return;
	}
	snprintf(count, sizeof(count), "%s_count", field->name);
	fputs("      <data name=\"", out);
	write_text(out, count);
	fputs("\" inType=\"win:UInt16\"/>\n", out);
	if (field->element == RP_TYPE_STRUCT)
		write_struct(out, field, count);
	else if (in_type(field->element))
		write_data(out, NULL, field, in_type(field->element), count);
}

/* The name of a function is unique in C, but two providers in C may have the same name. */
static void write_name(FILE *out, const struct provider *provider, size_t number)
{
	const struct rp_binary_event *event = provider->events[number];

	write_text(out, event->name);
	for (size_t i = 0; i < number; i++) {
		if (!strcmp(provider->events[i]->name, event->name)) {
			fprintf(out, "_%u_V%u", event->id, event->version);
			return;
		}
	}
}

static bool has_template(const struct rp_binary_event *event)
{
	return event->field_count || (event->flags & RP_EVENT_WIRE);
}

static void write_template(FILE *out, const struct provider *provider, size_t number)
{
	const struct rp_binary_event *event = provider->events[number];

	fputs("     <template tid=\"", out);
	write_name(out, provider, number);
	fputs("\">\n", out);
	for (uint16_t i = 0; i < event->field_count; i++) {
		const struct rp_field *field = &event->fields[i];

		if (field->type == RP_TYPE_ARRAY)
			write_array(out, field);
		else if (field->type == RP_TYPE_STRUCT)
			write_struct(out, field, NULL);
		else if (in_type(field->type))
			write_data(out, NULL, field, in_type(field->type), NULL);
	}
	if (event->flags & RP_EVENT_WIRE)
		fputs("      <!-- The file does not describe the rest of the payload. -->\n", out);
	fputs("     </template>\n", out);
}

static void write_event(FILE *out, const struct provider *provider, size_t number)
{
	static const char *const levels[] = {
		"LogAlways", "Critical", "Error", "Warning", "Informational", "Verbose",
	};
	const struct rp_binary_event *event = provider->events[number];
	const char *separator = " keywords=\"";

	fprintf(out, "     <event value=\"%u\" version=\"%u\" symbol=\"", event->id,
		event->version);
	write_name(out, provider, number);
	fprintf(out, "\" level=\"win:%s\"", levels[event->level]);
	if (opcode_name(event->opcode))
		fprintf(out, " opcode=\"%s\"", opcode_name(event->opcode));
	else
		fprintf(out, " opcode=\"Opcode%u\"", event->opcode);
	for (unsigned int bit = 0; bit < 64; bit++) {
		if (!(event->keywords >> bit & 1))
			continue;
		fprintf(out, "%sBit%u", separator, bit);
		separator = " ";
	}
	if (event->keywords)
		fputc('"', out);
	if (has_template(event)) {
		fputs(" template=\"", out);
		write_name(out, provider, number);
		fputc('"', out);
	}
	if (event->message)
		fprintf(out, " message=\"$(string.event%u.%u.%u)\"", provider->number, event->id,
			event->version);
	fputs("/>\n", out);
}

/*
 * Return the identifier of a provider in the source code, or its name if the file has no identifier
 * or another provider has the same one in upper case.
 */
static const char *identifier_of(const struct provider *provider)
{
	const struct rp_binary_event *event = provider->events[0];
	const struct rp_binary_events *all = provider->all;

	if (!event->provider_symbol)
		return event->provider;
	for (size_t i = 0; i < all->count; i++) {
		const struct rp_binary_event *each = &all->events[i];

		if (each->provider_symbol && strcmp(each->provider, event->provider) != 0 &&
		    !strcasecmp(each->provider_symbol, event->provider_symbol))
			return event->provider;
	}
	return event->provider_symbol;
}

static void write_provider(FILE *out, const struct provider *provider)
{
	const char *name = provider->events[0]->provider;
	struct rp_guid guid;

	rp_guid_from_name(name, &guid);
	fputs("   <provider name=\"", out);
	write_text(out, name);
	fputs("\" guid=\"{", out);
	for (size_t i = 0; i < sizeof(guid.bytes); i++)
		fprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			guid.bytes[i]);
	fputs("}\" symbol=\"", out);
	for (const char *each = identifier_of(provider); *each; each++)
		fputc(isalnum((unsigned char)*each) ? toupper((unsigned char)*each) : '_', out);
	fputs("_PROVIDER\" resourceFileName=\"\" messageFileName=\"\">\n", out);
	write_keywords(out, provider);
	write_opcodes(out, provider);
	write_maps(out, provider);
	fputs("    <templates>\n", out);
	for (size_t i = 0; i < provider->count; i++) {
		if (has_template(provider->events[i]))
			write_template(out, provider, i);
	}
	fputs("    </templates>\n    <events>\n", out);
	for (size_t i = 0; i < provider->count; i++)
		write_event(out, provider, i);
	fputs("    </events>\n   </provider>\n", out);
}

static void write_strings(FILE *out, const struct provider *provider)
{
	for (size_t i = 0; i < provider->count; i++) {
		const struct rp_binary_event *event = provider->events[i];

		if (!event->message)
			continue;
		fprintf(out, "    <string id=\"event%u.%u.%u\" value=\"", provider->number,
			event->id, event->version);
		write_message(out, event->message);
		fputs("\"/>\n", out);
	}
	write_map_strings(out, provider);
}

/*
 * Collect the events of the provider of event `first`. The library ignores the second of two events
 * with the same id and version, and so does this. Return: the number of the next provider's event.
 */
static size_t collect(const struct rp_binary_events *events, size_t first,
		      struct provider *provider)
{
	const struct rp_binary_event *event = &events->events[first], *last = NULL;

	provider->count = provider->map_count = 0;
	provider->number++;
	for (; first < events->count && !strcmp(events->events[first].provider, event->provider);
	     first++) {
		const struct rp_binary_event *each = &events->events[first];

		if (last && last->id == each->id && last->version == each->version)
			continue;
		last = provider->events[provider->count++] = each;
		add_maps(provider, each->fields, each->field_count);
	}
	return first;
}

static void visit_providers(FILE *out, const struct rp_binary_events *events,
			    struct provider *provider,
			    void (*write)(FILE *out, const struct provider *provider))
{
	provider->number = 0;
	for (size_t i = 0; i < events->count; ) {
		i = collect(events, i, provider);
		write(out, provider);
	}
}

int rp_write_manifest(FILE *out, const struct rp_binary_events *events, const char *source)
{
	struct provider provider = { .all = events };

	provider.events = calloc(events->count + 1, sizeof(*provider.events));
	if (!provider.events)
		return -ENOMEM;
	fputs("<!-- " RP_GENERATED_MARK, out);
	rp_write_comment(out, source);
	fputs(". -->\n<instrumentationManifest"
	      " xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">\n"
	      " <instrumentation>\n  <events>\n", out);
	visit_providers(out, events, &provider, write_provider);
	fputs("  </events>\n </instrumentation>\n <localization>\n"
	      "  <resources culture=\"en-US\">\n   <stringTable>\n", out);
	visit_providers(out, events, &provider, write_strings);
	fputs("   </stringTable>\n  </resources>\n </localization>\n"
	      "</instrumentationManifest>\n", out);
	free(provider.events);
	free(provider.maps);
	return provider.failed ? -ENOMEM : 0;
}
