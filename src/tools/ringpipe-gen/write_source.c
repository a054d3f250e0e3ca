/* SPDX-License-Identifier: MIT */
/* The source file: names, and the layout of payloads that fields cannot express. */
#include <string.h>

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

static void write_fields(FILE *out, const struct scope *scope,
			 const struct rp_manifest_provider *provider,
			 const struct rp_manifest_template *template,
			 const struct rp_manifest_field *fields);

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
	write_fields(out, &inner, provider, template, field->members);
	fputs("\t}\n", out);
}

static void write_fields(FILE *out, const struct scope *scope,
			 const struct rp_manifest_provider *provider,
			 const struct rp_manifest_template *template,
			 const struct rp_manifest_field *fields)
{
	for (; fields; fields = fields->next) {
		if (fields->type == RP_MANIFEST_STRUCT) {
			write_structs(out, scope, provider, template, fields);
		} else if (fields->length != RP_MANIFEST_ONE) {
			write_sized(out, scope, fields);
		} else if (!rp_field_is_single(fields)) {
			write_array(out, scope, fields);
		} else {
			fprintf(out, "%sat_ = ", scope->indent);
			write_value(out, scope, fields, "");
			fputs(";\n", out);
		}
	}
}

static void write_raw(FILE *out, const struct rp_manifest_provider *provider,
		      const struct rp_manifest_event *event)
{
	static const struct scope outer = { "", "i_", "\t" };
	const char *name = event->symbol;

	fprintf(out, "\nstatic size_t %s_%s_layout_(uint8_t *out_,", provider->symbol, name);
	rp_write_parameters(out, provider, event->template);
	fputs(")\n{\n\tsize_t at_ = 0;\n\n", out);
	write_fields(out, &outer, provider, event->template, event->template->fields);
	fprintf(out, "\treturn at_;\n}\n\nint %s_%s_pack_(", provider->symbol, name);
	rp_write_parameters(out, provider, event->template);
	fprintf(out, ")\n{\n\tconst size_t size_ = %s_%s_layout_(NULL, ", provider->symbol, name);
	rp_write_arguments(out, event->template);
	fprintf(out, ");\n\tuint8_t *payload_;\n\tstruct rp_part part_;\n\n"
		"\tif (size_ > RP_PAYLOAD_MAX)\n\t\treturn -EMSGSIZE;\n"
		"\tpayload_ = (uint8_t *)__builtin_alloca(size_ + 1);\n"
		"\t(void)%s_%s_layout_(payload_, ",
		provider->symbol, name);
	rp_write_arguments(out, event->template);
	fprintf(out, ");\n\tpart_.base = payload_;\n\tpart_.size_bytes = size_;\n"
		"\treturn %s_%s_write(&part_, 1);\n}\n", provider->symbol, name);
}

static void write_name_function(FILE *out, const struct rp_manifest_provider *provider,
				const char *name, const char *type, const char *argument,
				const struct rp_manifest_name *rows)
{
	if (!rows)
		return;
	fprintf(out, "\nconst char *%s_%s_name(%s %s)\n{\n\tswitch (%s) {\n", provider->symbol,
		name, type, argument, argument);
	for (; rows; rows = rows->next) {
		fprintf(out, "\tcase %#llx%s:\n\t\treturn ", (unsigned long long)rows->value,
			!strcmp(type, "uint64_t") ? "ull" : "u");
		rp_write_literal(out, rows->name);
		fputs(";\n", out);
	}
	fputs("\tdefault:\n\t\treturn NULL;\n\t}\n}\n", out);
}

static void write_provider(FILE *out, const struct rp_manifest_provider *provider)
{
	write_name_function(out, provider, "keyword", "uint64_t", "keyword", provider->keywords);
	write_name_function(out, provider, "level", "uint8_t", "level", provider->levels);
	write_name_function(out, provider, "task", "uint16_t", "task", provider->tasks);
	for (const struct rp_manifest_map *map = provider->maps; map; map = map->next)
		write_name_function(out, provider, map->symbol, "uint32_t",
				    map->is_bitmap ? "bit" : "value", map->values);
	for (const struct rp_manifest_event *event = provider->events; event; event = event->next) {
		if (!rp_event_is_plain(event))
			write_raw(out, provider, event);
	}
}

void rp_write_source(FILE *out, const struct rp_manifest *manifest, const char *source,
		     const char *stem)
{
	rp_write_mark(out, "/* ", source, " */");
	fprintf(out, "#include \"%s.h\"\n\n#include <errno.h>\n#include <stddef.h>\n"
		"#include <string.h>\n\n%s", stem, helpers);
	for (const struct rp_manifest_provider *provider = manifest->providers; provider;
	     provider = provider->next)
		write_provider(out, provider);
}
