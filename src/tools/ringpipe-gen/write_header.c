/* SPDX-License-Identifier: MIT */
/* The header: constants, structs, and one function for each event. */
#include <string.h>

#include "tools/ringpipe-gen/write_c.h"

/* The macros of ringpipe/event.h for fields that it expresses. */
static const char *const field_macros[RP_MANIFEST_STRUCT + 1] = {
	[RP_MANIFEST_UNICODE_STRING] = "RP_STRING16",
	[RP_MANIFEST_INT8] = "RP_I8",
	[RP_MANIFEST_UINT8] = "RP_U8",
	[RP_MANIFEST_INT16] = "RP_I16",
	[RP_MANIFEST_UINT16] = "RP_U16",
	[RP_MANIFEST_INT32] = "RP_I32",
	[RP_MANIFEST_UINT32] = "RP_U32",
	[RP_MANIFEST_INT64] = "RP_I64",
	[RP_MANIFEST_UINT64] = "RP_U64",
	[RP_MANIFEST_FLOAT] = "RP_F32",
	[RP_MANIFEST_DOUBLE] = "RP_F64",
	[RP_MANIFEST_BOOLEAN] = "RP_BOOL",
	[RP_MANIFEST_GUID] = "RP_GUID",
	[RP_MANIFEST_POINTER] = "RP_POINTER",
	[RP_MANIFEST_FILETIME] = "RP_TIME",
};

/* The functions that return a name, or NULL for a number without one. */
static void write_name_functions(FILE *out, const struct rp_manifest_provider *provider)
{
	fputs("\nRP_BEGIN_DECLS\n", out);
	if (provider->keywords)
		fprintf(out, "const char *%s_keyword_name(uint64_t keyword);\n", provider->symbol);
	if (provider->levels)
		fprintf(out, "const char *%s_level_name(uint8_t level);\n", provider->symbol);
	if (provider->tasks)
		fprintf(out, "const char *%s_task_name(uint16_t task);\n", provider->symbol);
	for (const struct rp_manifest_map *map = provider->maps; map; map = map->next)
		fprintf(out, "const char *%s_%s_name(uint32_t %s);\n", provider->symbol,
			map->symbol, map->is_bitmap ? "bit" : "value");
	fputs("RP_END_DECLS\n", out);
}

static void write_attributes(FILE *out, const struct rp_manifest_event *event)
{
	fprintf(out, "(RP_ID(%u)", event->id);
	if (event->version)
		fprintf(out, ", RP_VERSION(%u)", event->version);
	fprintf(out, ", RP_LEVEL(%llu)",
		event->level ? (unsigned long long)event->level->value : 0);
	if (event->keywords)
		fprintf(out, ", RP_KEYWORDS(%#llxull)", (unsigned long long)event->keywords);
	if (event->opcode && event->opcode->value)
		fprintf(out, ", RP_OPCODE(%llu)", (unsigned long long)event->opcode->value);
	if (event->message) {
		fputs(",\n\t     RP_MESSAGE(", out);
		rp_write_message(out, event->message);
		fputc(')', out);
	}
	fputc(')', out);
}

/* Declare the event with the fields that a trace describes. */
static void write_declaration(FILE *out, const struct rp_manifest_provider *provider,
			      const struct rp_manifest_event *event, const char *macro)
{
	const struct rp_manifest_field *field = event->template ? event->template->fields : NULL;

	fprintf(out, "\n%s(%s, %s,\n\t     ", macro, provider->symbol, event->symbol);
	write_attributes(out, event);
	for (uint32_t left = rp_leading_fields(event); left; left--, field = field->next)
		fprintf(out, ",\n\t     %s(%s)", field_macros[field->type], field->symbol);
	fputs(");\n", out);
}

/* An event whose payload a function of the source file lays out. */
static void write_raw(FILE *out, const struct rp_manifest_provider *provider,
		      const struct rp_manifest_event *event)
{
	write_declaration(out, provider, event, "RP_RAW_EVENT");
	fprintf(out, "RP_BEGIN_DECLS\nint %s_%s_pack_(", provider->symbol, event->symbol);
	rp_write_parameters(out, provider, event->template);
	fprintf(out, ");\nRP_END_DECLS\nstatic inline int %s_%s(", provider->symbol,
		event->symbol);
	rp_write_parameters(out, provider, event->template);
	fprintf(out, ")\n{\n\treturn %s_%s_enabled() ?\n\t       %s_%s_pack_(", provider->symbol,
		event->symbol, provider->symbol, event->symbol);
	rp_write_arguments(out, event->template);
	fputs(") : 0;\n}\n", out);
}

static void write_provider(FILE *out, const struct rp_manifest_provider *provider)
{
	const struct rp_manifest_event *event = provider->events;

	fputs("\n/* Provider ", out);
	rp_write_comment(out, provider->name);
	fprintf(out, ", %s */\nRP_PROVIDER(%s, ", provider->guid, provider->symbol);
	rp_write_literal(out, provider->name);
	fputs(");\n\n", out);
	rp_write_types(out, provider);
	write_name_functions(out, provider);
	for (; event; event = event->next) {
		if (rp_event_is_plain(event))
			write_declaration(out, provider, event, "RP_EVENT_EX");
		else
			write_raw(out, provider, event);
	}
}

void rp_write_header(FILE *out, const struct rp_manifest *manifest, const char *source,
		     const char *stem)
{
	const struct rp_manifest_provider *provider = manifest->providers;

	rp_write_mark(out, "/* ", source, " */");
	rp_write_guard(out, stem, "EVENTS_H");
	fputs("#include <stdbool.h>\n#include <stdint.h>\n\n#include <ringpipe/event.h>\n", out);
	for (; provider; provider = provider->next)
		write_provider(out, provider);
	/* The file exists if it was asked for; it puts macros before the functions. */
	fputs("\n#ifdef ", out);
	rp_write_macro(out, stem, "LTTNG");
	fprintf(out, "\n#include \"%s_lttng.h\"\n#endif\n\n#endif\n", stem);
}
