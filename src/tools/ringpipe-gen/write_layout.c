/* SPDX-License-Identifier: MIT */
/* Code that lays out payloads which the fields of RP_EVENT cannot express. */
#include "tools/ringpipe-gen/write_c.h"

/*
 * Functions of the generated file. Each put function copies to `at` unless `out` is NULL, and
 * returns the offset after the value, so one pass without `out` measures the payload.
 */
static const char helpers[] =
	"#define UNUSED_ static inline __attribute__((unused))\n"
	"\n"
	"UNUSED_ size_t put_bytes_(uint8_t *out, size_t at, const void *bytes, size_t size)\n"
	"{\n"
	"\tif (out && bytes && size)\n"
	"\t\tmemcpy(out + at, bytes, size);\n"
	"\telse if (out)\n"
	"\t\tmemset(out + at, 0, size);\n"
	"\treturn at + size;\n"
	"}\n"
	"\n"
	"UNUSED_ size_t put_u16_(uint8_t *out, size_t at, uint16_t value)\n"
	"{\n"
	"\treturn put_bytes_(out, at, &value, sizeof(value));\n"
	"}\n"
	"\n"
	"UNUSED_ size_t put_u32_(uint8_t *out, size_t at, uint32_t value)\n"
	"{\n"
	"\treturn put_bytes_(out, at, &value, sizeof(value));\n"
	"}\n"
	"\n"
	"UNUSED_ size_t put_u64_(uint8_t *out, size_t at, uint64_t value)\n"
	"{\n"
	"\treturn put_bytes_(out, at, &value, sizeof(value));\n"
	"}\n"
	"\n"
	"UNUSED_ size_t put_pointer_(uint8_t *out, size_t at, const void *value)\n"
	"{\n"
	"\treturn put_u64_(out, at, (uint64_t)(uintptr_t)value);\n"
	"}\n"
	"\n"
	"/* Nanoseconds since 1970 become units of 100 ns since 1601. */\n"
	"UNUSED_ size_t put_time_(uint8_t *out, size_t at, int64_t ns)\n"
	"{\n"
	"\tconst int64_t units = ns / 100 - (ns % 100 < 0) + 116444736000000000ll;\n"
	"\n"
	"\treturn put_bytes_(out, at, &units, sizeof(units));\n"
	"}\n"
	"\n"
	"/* The first three parts of a GUID are little-endian numbers. */\n"
	"UNUSED_ size_t put_guid_(uint8_t *out, size_t at, const struct rp_guid *guid)\n"
	"{\n"
	"\tstatic const uint8_t from[16] = {\n"
	"\t\t3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"\t};\n"
	"\n"
	"\tfor (size_t i = 0; out && i < sizeof(from); i++)\n"
	"\t\tout[at + i] = guid ? guid->bytes[from[i]] : 0;\n"
	"\treturn at + sizeof(from);\n"
	"}\n"
	"\n"
	"UNUSED_ size_t units_(const rp_char16 *text)\n"
	"{\n"
	"\tsize_t units = 0;\n"
	"\n"
	"\twhile (text && text[units])\n"
	"\t\tunits++;\n"
	"\treturn units;\n"
	"}\n"
	"\n"
	"/* A missing text is empty. */\n"
	"UNUSED_ size_t put_text16_(uint8_t *out, size_t at, const rp_char16 *text)\n"
	"{\n"
	"\treturn put_u16_(out, put_bytes_(out, at, text, 2 * units_(text)), 0);\n"
	"}\n"
	"\n"
	"UNUSED_ size_t put_text8_(uint8_t *out, size_t at, const char *text)\n"
	"{\n"
	"\treturn put_bytes_(out, at, text ? text : \"\", text ? strlen(text) + 1 : 1);\n"
	"}\n"
	"\n"
	"/*\n"
	" * The number of bytes precedes the text, and no NUL ends it. With a text whose number\n"
	" * does not fit, the payload exceeds RP_PAYLOAD_MAX, so the event is not written.\n"
	" */\n"
	"UNUSED_ size_t put_counted16_(uint8_t *out, size_t at, const rp_char16 *text)\n"
	"{\n"
	"\tconst size_t bytes = 2 * units_(text);\n"
	"\n"
	"\treturn put_bytes_(out, put_u16_(out, at, (uint16_t)bytes), text, bytes);\n"
	"}\n"
	"\n"
	"UNUSED_ size_t put_counted8_(uint8_t *out, size_t at, const char *text)\n"
	"{\n"
	"\tconst size_t bytes = text ? strlen(text) : 0;\n"
	"\n"
	"\treturn put_bytes_(out, put_u16_(out, at, (uint16_t)bytes), text, bytes);\n"
	"}\n"
	"\n"
	"/* The second byte of a SID is the number of its parts of four bytes. */\n"
	"UNUSED_ size_t put_sid_(uint8_t *out, size_t at, const void *sid)\n"
	"{\n"
	"\tconst size_t parts = sid ? ((const uint8_t *)sid)[1] : 0;\n"
	"\n"
	"\treturn put_bytes_(out, at, sid, 8 + 4 * parts);\n"
	"}\n";

/* The function that puts a value, if its bytes are not those in memory. */
static const char *const put_functions[RP_MANIFEST_STRUCT + 1] = {
	[RP_MANIFEST_UNICODE_STRING] = "put_text16_",
	[RP_MANIFEST_ANSI_STRING] = "put_text8_",
	[RP_MANIFEST_BOOLEAN] = "put_u32_",
	[RP_MANIFEST_GUID] = "put_guid_",
	[RP_MANIFEST_POINTER] = "put_pointer_",
	[RP_MANIFEST_FILETIME] = "put_time_",
	[RP_MANIFEST_SID] = "put_sid_",
	[RP_MANIFEST_COUNTED_UNICODE_STRING] = "put_counted16_",
	[RP_MANIFEST_COUNTED_ANSI_STRING] = "put_counted8_",
};

/* The scope of an expression: a parameter, or a member of the element `each_`. */
struct scope {
	const char *prefix;		/* of names in expressions */
	const char *index;		/* the loop variable for an array in this scope */
	const char *indent;
};

static void write_extent(FILE *out, const struct scope *scope,
			 const struct rp_manifest_field *field, enum rp_manifest_extent extent)
{
	if (extent == RP_MANIFEST_BY_FIELD)
		fprintf(out, "(size_t)%s%s", scope->prefix, field->extent_field->symbol);
	else
		fprintf(out, "%llu", extent == RP_MANIFEST_FIXED ?
			(unsigned long long)field->extent_value : 1ull);
}

/* One value that is `prefix` + name + `suffix` in C. */
static void write_value(FILE *out, const struct scope *scope, const struct rp_manifest_field *field,
			const char *suffix)
{
	const bool is_pointer = field->type == RP_MANIFEST_GUID && *suffix;

	if (field->type == RP_MANIFEST_COUNTED_BINARY)
		fprintf(out, "put_bytes_(out_, put_u16_(out_, at_, %s%s_bytes), %s%s, %s%s_bytes)",
			scope->prefix, field->symbol, scope->prefix, field->symbol, scope->prefix,
			field->symbol);
	else if (put_functions[field->type])
		fprintf(out, "%s(out_, at_, %s%s%s%s)", put_functions[field->type],
			is_pointer ? "&" : "", scope->prefix, field->symbol, suffix);
	else if (field->type == RP_MANIFEST_SYSTEMTIME)
		fprintf(out, "put_bytes_(out_, at_, %s%s, 16)", scope->prefix, field->symbol);
	else
		fprintf(out, "put_bytes_(out_, at_, &%s%s, sizeof(%s%s))", scope->prefix,
			field->symbol, scope->prefix, field->symbol);
}

/* Bytes or text whose size does not follow from its contents. */
static void write_sized(FILE *out, const struct scope *scope, const struct rp_manifest_field *field)
{
	fprintf(out, "%sat_ = put_bytes_(out_, at_, %s%s, %s", scope->indent, scope->prefix,
		field->symbol, field->type == RP_MANIFEST_UNICODE_STRING ? "2 * " : "");
	write_extent(out, scope, field, field->length);
	fputs(");\n", out);
}

static void write_array(FILE *out, const struct scope *scope, const struct rp_manifest_field *field)
{
	const size_t bytes = rp_manifest_type_bytes(field->type);
	char suffix[16];

	if (bytes && !put_functions[field->type]) {
		fprintf(out, "%sat_ = put_bytes_(out_, at_, %s%s, %zu * ", scope->indent,
			scope->prefix, field->symbol, bytes);
		write_extent(out, scope, field, field->count);
		fputs(");\n", out);
		return;
	}
	snprintf(suffix, sizeof(suffix), "[%s]", scope->index);
	fprintf(out, "%sfor (size_t %s = 0; %s < ", scope->indent, scope->index, scope->index);
	write_extent(out, scope, field, field->count);
	fprintf(out, "; %s++)\n%s\tat_ = ", scope->index, scope->indent);
	write_value(out, scope, field, suffix);
	fputs(";\n", out);
}

static void write_field(FILE *out, const struct scope *scope,
			const struct rp_manifest_provider *provider,
			const struct rp_manifest_template *template,
			const struct rp_manifest_field *field);

static void write_structs(FILE *out, const struct scope *scope,
			  const struct rp_manifest_provider *provider,
			  const struct rp_manifest_template *template,
			  const struct rp_manifest_field *field)
{
	static const struct scope inner = { "each_->", "j_", "\t\t" };

	fputs("\tfor (size_t i_ = 0; i_ < ", out);
	write_extent(out, scope, field, field->count);
	fprintf(out, "; i_++) {\n\t\tconst struct %s_%s_%s *each_ = &%s[i_];\n\n",
		provider->symbol, template->symbol, field->symbol, field->symbol);
	for (const struct rp_manifest_field *each = field->members; each; each = each->next)
		write_field(out, &inner, provider, template, each);
	fputs("\t}\n", out);
}

static void write_field(FILE *out, const struct scope *scope,
			const struct rp_manifest_provider *provider,
			const struct rp_manifest_template *template,
			const struct rp_manifest_field *field)
{
	if (field->type == RP_MANIFEST_STRUCT) {
		write_structs(out, scope, provider, template, field);
	} else if (field->length != RP_MANIFEST_ONE) {
		write_sized(out, scope, field);
	} else if (!rp_field_is_single(field)) {
		write_array(out, scope, field);
	} else {
		fprintf(out, "%sat_ = ", scope->indent);
		write_value(out, scope, field, "");
		fputs(";\n", out);
	}
}

void rp_write_layout_helpers(FILE *out)
{
	fputs(helpers, out);
}

void rp_write_layout(FILE *out, const struct rp_manifest_provider *provider,
		     const struct rp_manifest_template *template,
		     const struct rp_manifest_field *field)
{
	static const struct scope outer = { "", "i_", "\t" };

	write_field(out, &outer, provider, template, field);
}
