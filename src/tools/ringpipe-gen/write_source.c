/* SPDX-License-Identifier: MIT */
/* The source file: names, and the payloads that fields cannot express. */
#include <string.h>

#include "tools/ringpipe-gen/write_c.h"

static void write_raw(FILE *out, const struct rp_manifest_provider *provider,
		      const struct rp_manifest_event *event)
{
	const struct rp_manifest_field *field = event->template->fields;
	const char *name = event->symbol;

	fprintf(out, "\nstatic size_t %s_%s_layout_(uint8_t *out_,", provider->symbol, name);
	rp_write_parameters(out, provider, event->template);
	fputs(")\n{\n\tsize_t at_ = 0;\n\n", out);
	for (; field; field = field->next)
		rp_write_layout(out, provider, event->template, field);
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
		"#include <string.h>\n\n", stem);
	rp_write_layout_helpers(out);
	for (const struct rp_manifest_provider *provider = manifest->providers; provider;
	     provider = provider->next)
		write_provider(out, provider);
}
