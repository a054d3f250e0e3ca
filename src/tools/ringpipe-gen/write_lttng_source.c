/* SPDX-License-Identifier: MIT */
/* A classic tracepoint provider of LTTng-UST, the source file. */
#include <string.h>

#include "tools/ringpipe-gen/write_c.h"
#include "tools/ringpipe-gen/write_lttng.h"

/* Functions of the generated file, in addition to those of rp_write_layout_helpers(). */
static const char helpers[] =
	"\n"
	"/* Convert UTF-16 to UTF-8. An unpaired surrogate becomes U+FFFD. */\n"
	"UNUSED_ const char *to_utf8_(uint8_t *out, const rp_char16 *text, size_t units)\n"
	"{\n"
	"\tsize_t at = 0, i = 0;\n"
	"\n"
	"\twhile (text && i < units) {\n"
	"\t\tuint32_t code = text[i++];\n"
	"\t\tconst uint32_t low = i < units ? text[i] : 0;\n"
	"\n"
	"\t\tif (code >= 0xd800 && code < 0xdc00 && low >= 0xdc00 && low < 0xe000) {\n"
	"\t\t\tcode = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);\n"
	"\t\t\ti++;\n"
	"\t\t} else if (code >= 0xd800 && code < 0xe000) {\n"
	"\t\t\tcode = 0xfffd;\n"
	"\t\t}\n"
	"\t\tif (code < 0x80) {\n"
	"\t\t\tout[at++] = (uint8_t)code;\n"
	"\t\t\tcontinue;\n"
	"\t\t}\n"
	"\t\tif (code < 0x800) {\n"
	"\t\t\tout[at++] = (uint8_t)(0xc0 | code >> 6);\n"
	"\t\t} else if (code < 0x10000) {\n"
	"\t\t\tout[at++] = (uint8_t)(0xe0 | code >> 12);\n"
	"\t\t\tout[at++] = (uint8_t)(0x80 | (code >> 6 & 0x3f));\n"
	"\t\t} else {\n"
	"\t\t\tout[at++] = (uint8_t)(0xf0 | code >> 18);\n"
	"\t\t\tout[at++] = (uint8_t)(0x80 | (code >> 12 & 0x3f));\n"
	"\t\t\tout[at++] = (uint8_t)(0x80 | (code >> 6 & 0x3f));\n"
	"\t\t}\n"
	"\t\tout[at++] = (uint8_t)(0x80 | (code & 0x3f));\n"
	"\t}\n"
	"\tout[at] = 0;\n"
	"\treturn (const char *)out;\n"
	"}\n"
	"\n"
	"/* LTTng gets at most as much text as a payload can have. */\n"
	"UNUSED_ size_t cut_(size_t units)\n"
	"{\n"
	"\treturn units < RP_PAYLOAD_MAX / 2 ? units : RP_PAYLOAD_MAX / 2;\n"
	"}\n"
	"\n"
	"#define TEXT_(text, units) \\\n"
	"\tto_utf8_((uint8_t *)__builtin_alloca(3 * cut_(units) + 1), text, cut_(units))\n"
	"\n"
	"UNUSED_ const uint8_t *guid_bytes_(const struct rp_guid *guid)\n"
	"{\n"
	"\tstatic const uint8_t none[16] = { 0 };\n"
	"\n"
	"\treturn guid ? guid->bytes : none;\n"
	"}\n";

/* The number of elements of a sequence, without its factor. */
static void write_count(FILE *out, const struct rp_manifest_field *field)
{
	const enum rp_manifest_extent extent =
		field->length != RP_MANIFEST_ONE ? field->length : field->count;

	if (field->type == RP_MANIFEST_SID)
		fprintf(out, "8 + 4 * (size_t)((const uint8_t *)%s)[1]", field->symbol);
	else if (field->type == RP_MANIFEST_COUNTED_BINARY)
		fprintf(out, "(size_t)%s_bytes", field->symbol);
	else if (extent == RP_MANIFEST_BY_FIELD)
		fprintf(out, "(size_t)%s", field->extent_field->symbol);
	else
		fprintf(out, "(size_t)%llu", extent == RP_MANIFEST_FIXED ?
			(unsigned long long)field->extent_value : 1ull);
}

static void write_text(FILE *out, const struct rp_manifest_field *field)
{
	const char *name = field->symbol;
	const bool is_wide = field->type == RP_MANIFEST_UNICODE_STRING ||
			     field->type == RP_MANIFEST_COUNTED_UNICODE_STRING;

	if (!is_wide) {
		fprintf(out, "\tpayload_.%s = %s ? %s : \"\";\n", name, name, name);
	} else if (field->length != RP_MANIFEST_ONE) {
		fprintf(out, "\tpayload_.%s = TEXT_(%s, ", name, name);
		write_count(out, field);
		fputs(");\n", out);
	} else {
		fprintf(out, "\tpayload_.%s = TEXT_(%s, units_(%s));\n", name, name, name);
	}
}

/* The code measures the bytes, gets space on the stack, and writes them. */
static void write_bytes(FILE *out, const struct rp_manifest_provider *provider,
			const struct rp_manifest_template *template,
			const struct rp_manifest_field *field)
{
	const char *name = field->symbol;

	fputs("\tout_ = NULL;\n\tat_ = 0;\n", out);
	rp_write_layout(out, provider, template, field);
	fprintf(out, "\tif (at_ > RP_PAYLOAD_MAX)\n\t\treturn;\n"
		"\tpayload_.%s_count_ = at_;\n\tout_ = (uint8_t *)__builtin_alloca(at_ + 1);\n"
		"\tpayload_.%s = out_;\n\tat_ = 0;\n", name, name);
	rp_write_layout(out, provider, template, field);
}

static void write_assignment(FILE *out, const struct rp_manifest_provider *provider,
			     const struct rp_manifest_template *template,
			     const struct rp_manifest_field *field)
{
	const struct rp_lttng_shape shape = rp_lttng_shape(field);
	const char *name = field->symbol;

	switch (shape.form) {
	case RP_LTTNG_INTEGER:
	case RP_LTTNG_FLOAT:
		fprintf(out, "\tpayload_.%s = %s%s;\n", name,
			field->type == RP_MANIFEST_POINTER ? "(uint64_t)(uintptr_t)" : "", name);
		break;
	case RP_LTTNG_TEXT:
		write_text(out, field);
		break;
	case RP_LTTNG_GUID:
		fprintf(out, "\tpayload_.%s = guid_bytes_(%s);\n", name, name);
		break;
	case RP_LTTNG_CHARACTERS:
	case RP_LTTNG_SEQUENCE:
		fprintf(out, "\tpayload_.%s = (const %s *)(const void *)%s;\n"
			"\tpayload_.%s_count_ = %s ? ", name, shape.type, name, name, name);
		write_count(out, field);
		if (shape.units > 1)
			fprintf(out, " * %u", shape.units);
		fputs(" : 0;\n", out);
		break;
	case RP_LTTNG_LAYOUT:
		write_bytes(out, provider, template, field);
		break;
	}
}

static void write_function(FILE *out, const struct rp_manifest_provider *provider,
			   const struct rp_manifest_event *event)
{
	const struct rp_manifest_field *field = event->template ? event->template->fields : NULL;
	const char *symbol = provider->symbol, *name = event->symbol;
	bool has_layout = false;

	fprintf(out, "\nvoid %s_%s_lttng_(", symbol, name);
	rp_write_parameters(out, provider, event->template);
	fputs(")\n{\n", out);
	if (!field) {
		fprintf(out, "\ttracepoint(%s, %s, NULL);\n}\n", symbol, name);
		return;
	}
	for (; field; field = field->next)
		has_layout = has_layout || rp_lttng_shape(field).form == RP_LTTNG_LAYOUT;
	fprintf(out, "\tstruct %s_%s_payload_ payload_;\n", symbol, name);
	if (has_layout)
		fputs("\tuint8_t *out_;\n\tsize_t at_;\n", out);
	fputc('\n', out);
	for (field = event->template->fields; field; field = field->next)
		write_assignment(out, provider, event->template, field);
	fprintf(out, "\ttracepoint(%s, %s, &payload_);\n}\n", symbol, name);
}

void rp_write_lttng_source(FILE *out, const struct rp_manifest *manifest, const char *source,
			   const char *stem)
{
	const struct rp_manifest_provider *provider = manifest->providers;

	rp_write_mark(out, "/* ", source, " */");
	fprintf(out, "#define TRACEPOINT_CREATE_PROBES\n#define TRACEPOINT_DEFINE\n"
		"#include \"%s_lttng.h\"\n\n#include <stddef.h>\n#include <string.h>\n\n", stem);
	rp_write_layout_helpers(out);
	fputs(helpers, out);
	for (; provider; provider = provider->next) {
		for (const struct rp_manifest_event *event = provider->events; event;
		     event = event->next)
			write_function(out, provider, event);
	}
}
