/* SPDX-License-Identifier: MIT */
/* The parts that the headers for hosts and for components share: constants, structs, guards. */
#include <ctype.h>

#include "tools/ringpipe-gen/write_c.h"

static void write_names(FILE *out, const struct rp_manifest_provider *provider, const char *kind,
			const struct rp_manifest_name *names, const char *suffix)
{
	for (; names; names = names->next) {
		fprintf(out, "#define %s_%s_", provider->prefix, kind);
		if (names->task)
			fprintf(out, "%s_", names->task->symbol);
		fprintf(out, "%s %#llx%s\n", names->symbol, (unsigned long long)names->value,
			suffix);
	}
}

static void write_constants(FILE *out, const struct rp_manifest_provider *provider)
{
	write_names(out, provider, "KEYWORD", provider->keywords, "ull");
	write_names(out, provider, "LEVEL", provider->levels, "");
	write_names(out, provider, "TASK", provider->tasks, "");
	write_names(out, provider, "OPCODE", provider->opcodes, "");
	for (const struct rp_manifest_map *map = provider->maps; map; map = map->next)
		write_names(out, provider, map->symbol, map->values, "u");
}

static void write_structs(FILE *out, const struct rp_manifest_provider *provider)
{
	const struct rp_manifest_template *template = provider->templates;

	for (; template; template = template->next) {
		const struct rp_manifest_field *field = template->fields;

		for (; field; field = field->next) {
			if (field->type != RP_MANIFEST_STRUCT)
				continue;
			fprintf(out, "\n/* An element of %s in the template %s. */\n",
				field->symbol, template->symbol);
			fprintf(out, "struct %s_%s_%s {\n", provider->symbol, template->symbol,
				field->symbol);
			rp_write_members(out, field->members);
			fputs("};\n", out);
		}
	}
}

void rp_write_types(FILE *out, const struct rp_manifest_provider *provider)
{
	fprintf(out, "#ifndef %s_TYPES_\n#define %s_TYPES_\n\n", provider->prefix,
		provider->prefix);
	write_constants(out, provider);
	write_structs(out, provider);
	fprintf(out, "\n#endif\n");
}

void rp_write_macro(FILE *out, const char *stem, const char *suffix)
{
	for (; *stem; stem++)
		fputc(isalnum((unsigned char)*stem) ? toupper((unsigned char)*stem) : '_', out);
	fprintf(out, "_%s", suffix);
}

void rp_write_guard(FILE *out, const char *stem, const char *suffix)
{
	fputs("#ifndef ", out);
	rp_write_macro(out, stem, suffix);
	fputs("\n#define ", out);
	rp_write_macro(out, stem, suffix);
	fputs("\n\n", out);
}
