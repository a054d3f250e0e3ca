/* SPDX-License-Identifier: MIT */
/*
 * A classic tracepoint provider of LTTng-UST, the header. LTTng's headers include it several times,
 * and know one provider each time. A manifest may have several providers, so the header includes
 * itself once for each of them, with a macro that selects the provider.
 */
#include <inttypes.h>
#include <string.h>

#include "tools/ringpipe-gen/write_c.h"
#include "tools/ringpipe-gen/write_lttng.h"

struct rp_lttng_shape rp_lttng_shape(const struct rp_manifest_field *field)
{
	static const struct rp_lttng_shape single[RP_MANIFEST_STRUCT + 1] = {
		[RP_MANIFEST_UNICODE_STRING] = { RP_LTTNG_TEXT, "char", false, 1 },
		[RP_MANIFEST_ANSI_STRING] = { RP_LTTNG_TEXT, "char", false, 1 },
		[RP_MANIFEST_INT8] = { RP_LTTNG_INTEGER, "int8_t", false, 1 },
		[RP_MANIFEST_UINT8] = { RP_LTTNG_INTEGER, "uint8_t", false, 1 },
		[RP_MANIFEST_INT16] = { RP_LTTNG_INTEGER, "int16_t", false, 1 },
		[RP_MANIFEST_UINT16] = { RP_LTTNG_INTEGER, "uint16_t", false, 1 },
		[RP_MANIFEST_INT32] = { RP_LTTNG_INTEGER, "int32_t", false, 1 },
		[RP_MANIFEST_UINT32] = { RP_LTTNG_INTEGER, "uint32_t", false, 1 },
		[RP_MANIFEST_INT64] = { RP_LTTNG_INTEGER, "int64_t", false, 1 },
		[RP_MANIFEST_UINT64] = { RP_LTTNG_INTEGER, "uint64_t", false, 1 },
		[RP_MANIFEST_FLOAT] = { RP_LTTNG_FLOAT, "float", false, 1 },
		[RP_MANIFEST_DOUBLE] = { RP_LTTNG_FLOAT, "double", false, 1 },
		[RP_MANIFEST_BOOLEAN] = { RP_LTTNG_INTEGER, "uint8_t", false, 1 },
		[RP_MANIFEST_BINARY] = { RP_LTTNG_SEQUENCE, "uint8_t", true, 1 },
		[RP_MANIFEST_GUID] = { RP_LTTNG_GUID, "uint8_t", true, 16 },
		[RP_MANIFEST_POINTER] = { RP_LTTNG_INTEGER, "uint64_t", true, 1 },
		[RP_MANIFEST_FILETIME] = { RP_LTTNG_INTEGER, "int64_t", false, 1 },
		[RP_MANIFEST_SYSTEMTIME] = { RP_LTTNG_SEQUENCE, "uint16_t", false, 8 },
		[RP_MANIFEST_SID] = { RP_LTTNG_SEQUENCE, "uint8_t", true, 1 },
		[RP_MANIFEST_COUNTED_UNICODE_STRING] = { RP_LTTNG_TEXT, "char", false, 1 },
		[RP_MANIFEST_COUNTED_ANSI_STRING] = { RP_LTTNG_TEXT, "char", false, 1 },
		[RP_MANIFEST_COUNTED_BINARY] = { RP_LTTNG_SEQUENCE, "uint8_t", true, 1 },
		[RP_MANIFEST_STRUCT] = { RP_LTTNG_LAYOUT, "uint8_t", true, 1 },
	};
	struct rp_lttng_shape shape = single[field->type];

	if (field->type == RP_MANIFEST_ANSI_STRING && field->length != RP_MANIFEST_ONE)
		shape.form = RP_LTTNG_CHARACTERS;
	if (rp_field_is_single(field) || field->type == RP_MANIFEST_STRUCT)
		return shape;
	/* LTTng has sequences of integers only: floats become their bits. */
	if (shape.form == RP_LTTNG_TEXT)
		return single[RP_MANIFEST_STRUCT];
	if (shape.form == RP_LTTNG_FLOAT) {
		shape.type = field->type == RP_MANIFEST_FLOAT ? "uint32_t" : "uint64_t";
		shape.is_hexadecimal = true;
	}
	shape.form = RP_LTTNG_SEQUENCE;
	return shape;
}

static void write_directive(FILE *out, const char *directive, const char *stem, const char *rest)
{
	fputs(directive, out);
	rp_write_macro(out, stem, "LTTNG");
	fputs(rest, out);
}

/* The payload of a tracepoint, since a tracepoint has up to ten arguments. */
static void write_payload(FILE *out, const struct rp_manifest_provider *provider,
			  const struct rp_manifest_event *event)
{
	const struct rp_manifest_field *field = event->template ? event->template->fields : NULL;

	if (!field)
		return;
	fprintf(out, "\nstruct %s_%s_payload_ {\n", provider->symbol, event->symbol);
	for (; field; field = field->next) {
		const struct rp_lttng_shape shape = rp_lttng_shape(field);

		if (shape.form == RP_LTTNG_INTEGER || shape.form == RP_LTTNG_FLOAT)
			fprintf(out, "\t%s %s;\n", shape.type, field->symbol);
		else
			fprintf(out, "\tconst %s *%s;\n", shape.type, field->symbol);
		if (shape.form >= RP_LTTNG_CHARACTERS && shape.form != RP_LTTNG_GUID)
			fprintf(out, "\tsize_t %s_count_;\n", field->symbol);
	}
	fputs("};\n", out);
}

static void write_field(FILE *out, const struct rp_manifest_field *field)
{
	const struct rp_lttng_shape shape = rp_lttng_shape(field);
	const char *hex = shape.is_hexadecimal ? "_hex" : "", *name = field->symbol;

	switch (shape.form) {
	case RP_LTTNG_INTEGER:
		fprintf(out, "ctf_integer%s(%s, %s, payload->%s)", hex, shape.type, name, name);
		break;
	case RP_LTTNG_FLOAT:
		fprintf(out, "ctf_float(%s, %s, payload->%s)", shape.type, name, name);
		break;
	case RP_LTTNG_TEXT:
		fprintf(out, "ctf_string(%s, payload->%s)", name, name);
		break;
	case RP_LTTNG_GUID:
		fprintf(out, "ctf_array_hex(uint8_t, %s, payload->%s, 16)", name, name);
		break;
	case RP_LTTNG_CHARACTERS:
		hex = "_text";
		/* fall through */
	case RP_LTTNG_SEQUENCE:
	case RP_LTTNG_LAYOUT:
		fprintf(out, "ctf_sequence%s(%s, %s, payload->%s, size_t, payload->%s_count_)",
			hex, shape.type, name, name, name);
		break;
	}
}

static void write_tracepoint(FILE *out, const struct rp_manifest_provider *provider,
			     const struct rp_manifest_event *event)
{
	/* The levels of syslog, as in LTTng; level 0 of ETW is in every range. */
	static const char *const levels[] = {
		"TRACE_EMERG", "TRACE_CRIT", "TRACE_ERR", "TRACE_WARNING", "TRACE_INFO",
		"TRACE_DEBUG",
	};
	const struct rp_manifest_field *field = event->template ? event->template->fields : NULL;
	const char *symbol = provider->symbol, *name = event->symbol;
	const unsigned int level = event->level ? (unsigned int)event->level->value : 0;

	fprintf(out, "\nTRACEPOINT_EVENT(%s, %s,\n", symbol, name);
	if (field)
		fprintf(out, "\tTP_ARGS(const struct %s_%s_payload_ *, payload),\n", symbol, name);
	else
		fputs("\tTP_ARGS(const void *, payload),\n", out);
	fputs("\tTP_FIELDS(", out);
	for (; field; field = field->next) {
		fputs("\n\t\t", out);
		write_field(out, field);
	}
	fprintf(out, "))\nTRACEPOINT_LOGLEVEL(%s, %s, %s)\n", symbol, name, levels[level]);
	fprintf(out, "TRACEPOINT_MODEL_EMF_URI(%s, %s,\n\t\"ringpipe:id=%u;version=%u;level=%u;"
		"opcode=%u;keywords=%#" PRIx64 "\")\n", symbol, name, event->id, event->version,
		level, event->opcode ? (unsigned int)event->opcode->value : 0, event->keywords);
}

/* The function that fires the tracepoint, and macros that put it before ringpipe's functions. */
static void write_call(FILE *out, const struct rp_manifest_provider *provider,
		       const struct rp_manifest_event *event)
{
	const char *symbol = provider->symbol, *name = event->symbol;

	fprintf(out, "\nRP_BEGIN_DECLS\nvoid %s_%s_lttng_(", symbol, name);
	rp_write_parameters(out, provider, event->template);
	fprintf(out, ");\nRP_END_DECLS\nstatic inline int %s_%s_both_(", symbol, name);
	rp_write_parameters(out, provider, event->template);
	fprintf(out, ")\n{\n\tif (tracepoint_enabled(%s, %s))\n\t\t%s_%s_lttng_(", symbol, name,
		symbol, name);
	rp_write_arguments(out, event->template);
	fprintf(out, ");\n\treturn %s_%s(", symbol, name);
	rp_write_arguments(out, event->template);
	fprintf(out, ");\n}\n#define %s_%s(...) %s_%s_both_(__VA_ARGS__)\n"
		"#define %s_%s_enabled() (tracepoint_enabled(%s, %s) || %s_%s_enabled())\n",
		symbol, name, symbol, name, symbol, name, symbol, name, symbol, name);
}

static void write_provider(FILE *out, const struct rp_manifest_provider *provider,
			   unsigned int number, const char *stem)
{
	fprintf(out, "\n#%s ", number == 1 ? "if" : "elif");
	rp_write_macro(out, stem, "LTTNG");
	fprintf(out, "_PROVIDER == %u\n\n#undef TRACEPOINT_PROVIDER\n"
		"#define TRACEPOINT_PROVIDER %s\n#undef TRACEPOINT_INCLUDE\n"
		"#define TRACEPOINT_INCLUDE \"./%s_lttng.h\"\n#if !defined(", number,
		provider->symbol, stem);
	rp_write_macro(out, stem, "LTTNG");
	fprintf(out, "_%u) || defined(TRACEPOINT_HEADER_MULTI_READ)\n#define ", number);
	rp_write_macro(out, stem, "LTTNG");
	fprintf(out, "_%u\n", number);
	for (const struct rp_manifest_event *event = provider->events; event; event = event->next)
		write_tracepoint(out, provider, event);
	fputs("\n#endif\n#include <lttng/tracepoint-event.h>\n", out);
}

/* The part that a program includes. */
static void write_inclusions(FILE *out, const struct rp_manifest *manifest, const char *stem)
{
	const struct rp_manifest_provider *provider;
	const struct rp_manifest_event *event;
	unsigned int number = 0;

	write_directive(out, "#if !defined(", stem, "_PROVIDER) && !defined(");
	write_directive(out, "", stem, "_H)\n#define ");
	write_directive(out, "", stem, "_H\n\n");
	fprintf(out, "#include \"%s.h\"\n\n#include <stddef.h>\n\n#pragma GCC diagnostic push\n"
		"#pragma GCC diagnostic ignored \"-Wpedantic\"\n"
		"#include <lttng/tracepoint.h>\n",
		stem);
	for (provider = manifest->providers; provider; provider = provider->next) {
		for (event = provider->events; event; event = event->next)
			write_payload(out, provider, event);
	}
	for (provider = manifest->providers; provider; provider = provider->next) {
		write_directive(out, "\n#define ", stem, "");
		fprintf(out, "_PROVIDER %u\n#include \"%s_lttng.h\"\n", ++number, stem);
		write_directive(out, "#undef ", stem, "_PROVIDER\n");
	}
	fputs("#pragma GCC diagnostic pop\n", out);
	for (provider = manifest->providers; provider; provider = provider->next) {
		for (event = provider->events; event; event = event->next)
			write_call(out, provider, event);
	}
	write_directive(out, "\n#elif defined(", stem, "_PROVIDER)\n");
}

void rp_write_lttng_header(FILE *out, const struct rp_manifest *manifest, const char *source,
			   const char *stem)
{
	const struct rp_manifest_provider *provider = manifest->providers;
	unsigned int number = 0;

	rp_write_mark(out, "/* ", source, " */");
	write_inclusions(out, manifest, stem);
	for (; provider; provider = provider->next)
		write_provider(out, provider, ++number, stem);
	fputs("\n#endif\n#endif\n", out);
}
