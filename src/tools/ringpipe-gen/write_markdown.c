/* SPDX-License-Identifier: MIT */
/* A reference of the events for the people who read traces. */
#include <string.h>

#include "tools/ringpipe-gen/write_c.h"

/* Write text as one line of a table, without characters that Markdown interprets. */
static void write_text(FILE *out, const char *text)
{
	for (; text && *text; text++) {
		if (strchr("\\|`*_[]<>#&", *text))
			fputc('\\', out);
		fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
	}
}

static const char *type_name(const struct rp_manifest_field *field)
{
	static const char *const names[RP_MANIFEST_STRUCT + 1] = {
		"Unicode string", "ANSI string", "int8", "uint8", "int16", "uint16", "int32",
		"uint32", "int64", "uint64", "float", "double", "Boolean", "binary", "GUID",
		"pointer", "time", "system time", "SID", "counted Unicode string",
		"counted ANSI string", "counted binary", "struct",
	};

	return names[field->type];
}

static void write_extent(FILE *out, const char *kind, enum rp_manifest_extent extent,
			 const struct rp_manifest_field *field)
{
	if (extent == RP_MANIFEST_FIXED)
		fprintf(out, ", %s %llu", kind, (unsigned long long)field->extent_value);
	if (extent == RP_MANIFEST_BY_FIELD) {
		fprintf(out, ", %s ", kind);
		write_text(out, field->extent_field->name);
	}
}

static void write_fields(FILE *out, const struct rp_manifest_field *field, const char *parent)
{
	for (; field; field = field->next) {
		fputs("| ", out);
		write_text(out, parent);
		if (*parent)
			fputc('.', out);
		write_text(out, field->name);
		fprintf(out, " | %s", type_name(field));
		write_extent(out, "count", field->count, field);
		write_extent(out, "length", field->length, field);
		fputs(" | ", out);
		if (field->map)
			write_text(out, field->map->name);
		fputs(" |\n", out);
		if (field->type == RP_MANIFEST_STRUCT)
			write_fields(out, field->members, field->name);
	}
}

static void write_event(FILE *out, const struct rp_manifest_event *event)
{
	fputs("\n### ", out);
	write_text(out, event->symbol);
	fprintf(out, "\n\nId %u, version %u, level ", event->id, event->version);
	write_text(out, event->level ? event->level->name : "0");
	fprintf(out, ", keywords %#llx", (unsigned long long)event->keywords);
	if (event->task) {
		fputs(", task ", out);
		write_text(out, event->task->name);
	}
	if (event->opcode) {
		fputs(", opcode ", out);
		write_text(out, event->opcode->name);
	}
	fputs(".\n", out);
	if (event->message) {
		fputs("\nMessage: ", out);
		write_text(out, event->message);
		fputc('\n', out);
	}
	if (event->template && event->template->fields) {
		fputs("\n| field | type | map |\n| --- | --- | --- |\n", out);
		write_fields(out, event->template->fields, "");
	}
}

static void write_names(FILE *out, const char *title, const struct rp_manifest_name *names)
{
	if (!names)
		return;
	fputs("\n### ", out);
	write_text(out, title);
	fputs("\n\n| value | name |\n| --- | --- |\n", out);
	for (; names; names = names->next) {
		fprintf(out, "| %#llx | ", (unsigned long long)names->value);
		if (names->task) {
			write_text(out, names->task->name);
			fputc('/', out);
		}
		write_text(out, names->name);
		fputs(" |\n", out);
	}
}

static void write_provider(FILE *out, const struct rp_manifest_provider *provider)
{
	fputs("\n## ", out);
	write_text(out, provider->name);
	fprintf(out, "\n\nGUID %s, functions `%s_…`.\n", provider->guid, provider->symbol);
	write_names(out, "Keywords", provider->keywords);
	write_names(out, "Levels", provider->levels);
	write_names(out, "Tasks", provider->tasks);
	write_names(out, "Opcodes", provider->opcodes);
	for (const struct rp_manifest_map *map = provider->maps; map; map = map->next)
		write_names(out, map->name, map->values);
	for (const struct rp_manifest_event *event = provider->events; event; event = event->next)
		write_event(out, event);
}

void rp_write_markdown(FILE *out, const struct rp_manifest *manifest, const char *source,
		       const char *stem)
{
	rp_write_mark(out, "<!-- ", source, " -->");
	fputs("# Events of ", out);
	write_text(out, stem);
	fputc('\n', out);
	for (const struct rp_manifest_provider *provider = manifest->providers; provider;
	     provider = provider->next)
		write_provider(out, provider);
}
