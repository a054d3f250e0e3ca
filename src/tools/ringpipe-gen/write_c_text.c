/* SPDX-License-Identifier: MIT */
/* The parts of C code that header and source share. */
#include "tools/ringpipe-gen/write_c.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Type of a single value, and of an element in the array that a caller passes. */
static const struct {
	const char *single, *element;
} c_types[RP_MANIFEST_STRUCT] = {
	[RP_MANIFEST_UNICODE_STRING] = { "const rp_char16 *", "const rp_char16 *const *" },
	[RP_MANIFEST_ANSI_STRING] = { "const char *", "const char *const *" },
	[RP_MANIFEST_INT8] = { "int8_t ", "const int8_t *" },
	[RP_MANIFEST_UINT8] = { "uint8_t ", "const uint8_t *" },
	[RP_MANIFEST_INT16] = { "int16_t ", "const int16_t *" },
	[RP_MANIFEST_UINT16] = { "uint16_t ", "const uint16_t *" },
	[RP_MANIFEST_INT32] = { "int32_t ", "const int32_t *" },
	[RP_MANIFEST_UINT32] = { "uint32_t ", "const uint32_t *" },
	[RP_MANIFEST_INT64] = { "int64_t ", "const int64_t *" },
	[RP_MANIFEST_UINT64] = { "uint64_t ", "const uint64_t *" },
	[RP_MANIFEST_FLOAT] = { "float ", "const float *" },
	[RP_MANIFEST_DOUBLE] = { "double ", "const double *" },
	[RP_MANIFEST_BOOLEAN] = { "bool ", "const bool *" },
	[RP_MANIFEST_BINARY] = { "const void *", NULL },
	[RP_MANIFEST_GUID] = { "const struct rp_guid *", "const struct rp_guid *" },
	[RP_MANIFEST_POINTER] = { "const void *", "const void *const *" },
	[RP_MANIFEST_FILETIME] = { "int64_t ", "const int64_t *" },
	[RP_MANIFEST_SYSTEMTIME] = { "const void *", "const void *" },
	[RP_MANIFEST_SID] = { "const void *", NULL },
	[RP_MANIFEST_COUNTED_UNICODE_STRING] = { "const rp_char16 *", NULL },
	[RP_MANIFEST_COUNTED_ANSI_STRING] = { "const char *", NULL },
	[RP_MANIFEST_COUNTED_BINARY] = { "const void *", NULL },
};

bool rp_field_is_single(const struct rp_manifest_field *field)
{
	return field->count == RP_MANIFEST_ONE ||
	       (field->count == RP_MANIFEST_FIXED && field->extent_value == 1);
}

uint32_t rp_leading_fields(const struct rp_manifest_event *event)
{
	const struct rp_manifest_field *field = event->template ? event->template->fields : NULL;
	uint32_t count = 0;

	for (; field && count < RP_PLAIN_FIELDS_MAX; field = field->next) {
		const bool has_size = rp_manifest_type_bytes(field->type) != 0 &&
				      field->type != RP_MANIFEST_SYSTEMTIME;

		if (!rp_field_is_single(field) || field->length != RP_MANIFEST_ONE ||
		    (!has_size && field->type != RP_MANIFEST_UNICODE_STRING))
			break;
		count++;
	}
	return count;
}

bool rp_event_is_plain(const struct rp_manifest_event *event)
{
	return !event->template || rp_leading_fields(event) == event->template->field_count;
}

void rp_write_mark(FILE *out, const char *begin, const char *source, const char *end)
{
	fprintf(out, "%s" RP_GENERATED_MARK, begin);
	rp_write_comment(out, source);
	fprintf(out, ". Edit the manifest instead.%s\n", end);
}

void rp_write_comment(FILE *out, const char *text)
{
	for (char last = ' '; *text; text++) {
		const bool is_harmless = (unsigned char)*text >= ' ' && *text != '*' &&
					 *text != '<' && *text != '>' &&
					 (*text != '-' || last != '-');

		last = is_harmless ? *text : '_';
		fputc(last, out);
	}
}

static void write_declaration(FILE *out, const char *scope, const struct rp_manifest_field *field,
			      const char *separator)
{
	if (field->type == RP_MANIFEST_STRUCT)
		fprintf(out, "const struct %s_%s *%s", scope, field->symbol, field->symbol);
	else
		fprintf(out, "%s%s", rp_field_is_single(field) ? c_types[field->type].single :
			c_types[field->type].element, field->symbol);
	if (field->type == RP_MANIFEST_COUNTED_BINARY)
		fprintf(out, "%suint16_t %s_bytes", separator, field->symbol);
}

void rp_write_parameters(FILE *out, const struct rp_manifest_provider *provider,
			 const struct rp_manifest_template *template)
{
	const struct rp_manifest_field *field = template ? template->fields : NULL;
	char scope[1024];

	if (!field)
		fputs("void", out);
	else
		snprintf(scope, sizeof(scope), "%s_%s", provider->symbol, template->symbol);
	for (; field; field = field->next) {
		fputs("\n\t", out);
		write_declaration(out, scope, field, ", ");
		if (field->next)
			fputc(',', out);
	}
}

void rp_write_members(FILE *out, const struct rp_manifest_field *members)
{
	for (; members; members = members->next) {
		fputc('\t', out);
		write_declaration(out, "", members, ";\n\t");
		fputs(";\n", out);
	}
}

void rp_write_arguments(FILE *out, const struct rp_manifest_template *template)
{
	const struct rp_manifest_field *field = template ? template->fields : NULL;

	for (; field; field = field->next) {
		fputs(field->symbol, out);
		if (field->type == RP_MANIFEST_COUNTED_BINARY)
			fprintf(out, ", %s_bytes", field->symbol);
		if (field->next)
			fputs(", ", out);
	}
}

/* Octal escapes have up to three digits, so a digit that follows three is not part of one. */
static void write_character(FILE *out, char character)
{
	const unsigned char byte = (unsigned char)character;

	if (byte == '\n')
		fputs("\\n", out);
	else if (byte == '"' || byte == '\\' || byte == '?')
		fprintf(out, "\\%c", byte);
	else if (byte < ' ' || byte > '~')
		fprintf(out, "\\%03o", byte);
	else
		fputc(byte, out);
}

void rp_write_literal(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++)
		write_character(out, *text);
	fputc('"', out);
}

/* Write what a % begins. Return: the text after it. */
static const char *write_insertion(FILE *out, const char *text)
{
	static const char names[] = "ntrb", characters[] = "\n\t\r ";
	const char *escape;
	unsigned long number;
	char *end;

	if (!*text) {
		write_character(out, '%');
		return text;
	}
	if (!isdigit((unsigned char)*text)) {
		escape = strchr(names, *text);
		write_character(out, escape ? characters[escape - names] : *text);
		return text + 1;
	}
	number = strtoul(text, &end, 10);
	/* %0 ends a message without the end of a line. */
	if (!number)
		return text + strlen(text);
	fprintf(out, "{%lu}", number - 1);
	/* A format such as !x! may follow; the field's type already determines it. */
	if (*end == '!' && strchr(end + 1, '!'))
		end = strchr(end + 1, '!') + 1;
	return end;
}

void rp_write_message(FILE *out, const char *message)
{
	fputc('"', out);
	while (*message) {
		if (*message == '%') {
			message = write_insertion(out, message + 1);
			continue;
		}
		write_character(out, *message++);
	}
	fputc('"', out);
}
