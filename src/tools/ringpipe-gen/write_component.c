/* SPDX-License-Identifier: MIT */
/*
 * The events of a manifest for a component and its host (<ringpipe/component.h>). The table of each
 * provider has a function for each event, with a signature that identifies the event and its
 * parameters. The component's macros test a provider's words and call the function.
 */
#include <inttypes.h>

#include "base/hash.h"
#include "tools/ringpipe-gen/write_c.h"

/* Write "kind name(first, parameters of the event)". */
static void write_prototype(FILE *out, const struct rp_manifest_provider *provider,
			    const struct rp_manifest_event *event, const char *first)
{
	const bool has_fields = event->template && event->template->fields;

	fprintf(out, "(%s", first);
	if (has_fields && *first)
		fputc(',', out);
	if (has_fields || !*first)
		rp_write_parameters(out, provider, event->template);
	fputc(')', out);
}

/* Hash what determines the parameters for these fields, or the members of a struct. */
static uint64_t hash_fields(uint64_t hash, const struct rp_manifest_field *field)
{
	for (; field; field = field->next) {
		const uint8_t form[] = { (uint8_t)field->type, rp_field_is_single(field) };

		hash = rp_hash_text(hash, field->symbol);
		hash = rp_hash_bytes(hash, form, sizeof(form));
		hash = hash_fields(hash, field->members);
	}
	return rp_hash_text(hash, "");
}

/* Return a number that differs between events, and between versions that are called differently. */
static uint64_t signature_of(const struct rp_manifest_provider *provider,
			     const struct rp_manifest_event *event)
{
	const uint8_t numbers[] = { (uint8_t)event->id, (uint8_t)(event->id >> 8), event->version };
	uint64_t hash = rp_hash_text(RP_HASH_BEGIN, provider->name);

	hash = rp_hash_text(hash, event->symbol);
	hash = rp_hash_bytes(hash, numbers, sizeof(numbers));
	return hash_fields(hash, event->template ? event->template->fields : NULL);
}

static void write_signatures(FILE *out, const struct rp_manifest_provider *provider)
{
	const struct rp_manifest_event *event = provider->events;

	fprintf(out, "\nstatic const uint64_t %s_signatures_[] = {\n", provider->symbol);
	for (; event; event = event->next)
		fprintf(out, "\t%#" PRIx64 "ull,\t/* %s */\n", signature_of(provider, event),
			event->symbol);
	fputs("\t0\n};\n", out);
}

static void write_provider_comment(FILE *out, const struct rp_manifest_provider *provider)
{
	fputs("\n/* Provider ", out);
	rp_write_comment(out, provider->name);
	fprintf(out, ", %s */\n", provider->guid);
}

static void write_table(FILE *out, const struct rp_manifest_provider *provider)
{
	const char *symbol = provider->symbol;

	const struct rp_manifest_event *event = provider->events;

	fprintf(out, "\nstruct %s_component_events {\n\tstruct rp_component_table table;\n",
		symbol);
	for (; event; event = event->next) {
		fprintf(out, "\tvoid (*fire_%s)", event->symbol);
		write_prototype(out, provider, event, "void *host_data_");
		fputs(";\n", out);
	}
	fprintf(out, "};\n\nstruct %s_component {\n\tstruct rp_component_state state;\n"
		"\tstruct %s_component_events events;\n};\n\nRP_BEGIN_DECLS\n"
		"extern RP_HIDDEN struct %s_component %s_component;\n\n"
		"/* Begin to use a host. Call this function in the component's entry. */\n"
		"RP_HIDDEN int %s_component_init(const struct rp_component_host *host,\n"
		"\tstruct rp_component *component);\nRP_END_DECLS\n",
		symbol, symbol, symbol, symbol, symbol);
}

static void write_macros(FILE *out, const struct rp_manifest_provider *provider,
			 const struct rp_manifest_event *event)
{
	const bool has_fields = event->template && event->template->fields;
	const char *symbol = provider->symbol, *prefix = provider->prefix, *name = event->symbol;

	fprintf(out, "\n#define %s_ENABLED_%s() \\\n"
		"\t(rp_component_enabled(&%s_component.state, RP_COMPONENT_DEFAULT, %llu, %#" PRIx64
		"ull) && \\\n\t %s_component.events.fire_%s)\n", prefix, name, symbol,
		event->level ? (unsigned long long)event->level->value : 0ull, event->keywords,
		symbol, name);
	fprintf(out, "#define %s_FIRE_%s(%s) \\\n\tdo { \\\n"
		"\t\tif (__builtin_expect(%s_ENABLED_%s(), 0)) \\\n"
		"\t\t\t%s_component.events.fire_%s( \\\n"
		"\t\t\t\t%s_component.state.host.data%s); \\\n\t} while (0)\n", prefix, name,
		has_fields ? "..." : "", prefix, name, symbol, name, symbol,
		has_fields ? ", __VA_ARGS__" : "");
}

static void write_stub_macros(FILE *out, const struct rp_manifest_provider *provider,
			      const struct rp_manifest_event *event)
{
	const bool has_fields = event->template && event->template->fields;
	const char *symbol = provider->symbol, *prefix = provider->prefix, *name = event->symbol;

	fprintf(out, "\nRP_BEGIN_DECLS\nvoid %s_%s_never_", symbol, name);
	write_prototype(out, provider, event, "");
	fprintf(out, ";\nRP_END_DECLS\n#define %s_ENABLED_%s() 0\n"
		"#define %s_FIRE_%s(%s) \\\n\tdo { \\\n\t\tif (0) \\\n"
		"\t\t\t%s_%s_never_(%s); \\\n\t} while (0)\n", prefix, name, prefix, name,
		has_fields ? "..." : "", symbol, name, has_fields ? "__VA_ARGS__" : "");
}

/* Write what the header and the stub have for each provider. `table` may be NULL. */
static void write_providers(FILE *out, const struct rp_manifest *manifest,
			    void (*table)(FILE *out, const struct rp_manifest_provider *provider),
			    void (*macros)(FILE *out, const struct rp_manifest_provider *provider,
					   const struct rp_manifest_event *event))
{
	const struct rp_manifest_provider *provider = manifest->providers;

	for (; provider; provider = provider->next) {
		write_provider_comment(out, provider);
		rp_write_types(out, provider);
		if (table)
			table(out, provider);
		for (const struct rp_manifest_event *event = provider->events; event;
		     event = event->next)
			macros(out, provider, event);
	}
	fputs("\n#endif\n", out);
}

void rp_write_component_header(FILE *out, const struct rp_manifest *manifest, const char *source,
			       const char *stem)
{
	rp_write_mark(out, "/* ", source, " */");
	rp_write_guard(out, stem, "COMPONENT_H");
	fputs("#include <stdbool.h>\n#include <stdint.h>\n\n"
	      "#include <ringpipe/component.h>\n", out);
	write_providers(out, manifest, write_table, write_macros);
}

void rp_write_component_stub(FILE *out, const struct rp_manifest *manifest, const char *source,
			     const char *stem)
{
	rp_write_mark(out, "/* ", source, " */");
	fprintf(out, "/*\n * The header for builds without a host, in place of %s_component.h. The "
		"macros check the\n * types of their arguments, evaluate none of them, and call "
		"nothing. The functions have\n * no definition.\n */\n", stem);
	rp_write_guard(out, stem, "COMPONENT_H");
	fputs("#include <stdbool.h>\n#include <stdint.h>\n\n#include <ringpipe/types.h>\n", out);
	write_providers(out, manifest, NULL, write_stub_macros);
}

void rp_write_component_source(FILE *out, const struct rp_manifest *manifest, const char *source,
			       const char *stem)
{
	const struct rp_manifest_provider *provider = manifest->providers;

	rp_write_mark(out, "/* ", source, " */");
	fprintf(out, "#include \"%s_component.h\"\n", stem);
	for (; provider; provider = provider->next) {
		const char *symbol = provider->symbol;

		write_signatures(out, provider);
		fprintf(out, "\nstruct %s_component %s_component;\n\n"
			"int %s_component_init(const struct rp_component_host *host,\n"
			"\tstruct rp_component *component)\n{\n"
			"\tstruct %s_component *own_ = &%s_component;\n"
			"\tint ret = rp_component_init(&own_->state, host, 0, 0, component);\n\n"
			"\tif (ret == 0)\n"
			"\t\trp_component_match(&own_->events, sizeof(own_->events), "
			"%s_signatures_,\n\t\t\t\t   own_->state.host.events);\n"
			"\treturn ret;\n}\n", symbol, symbol, symbol, symbol, symbol, symbol);
	}
}

void rp_write_component_host_header(FILE *out, const struct rp_manifest *manifest,
				    const char *source, const char *stem)
{
	const struct rp_manifest_provider *provider = manifest->providers;

	rp_write_mark(out, "/* ", source, " */");
	rp_write_guard(out, stem, "COMPONENT_HOST_H");
	fprintf(out, "#include <ringpipe/component_host.h>\n\n#include \"%s.h\"\n"
		"#include \"%s_component.h\"\n\n"
		"/* The `events` of struct rp_component_options. */\nRP_BEGIN_DECLS\n", stem, stem);
	for (; provider; provider = provider->next)
		fprintf(out, "extern const struct %s_component_events %s_component_host_events;\n",
			provider->symbol, provider->symbol);
	fputs("RP_END_DECLS\n\n#endif\n", out);
}

static void write_host_table(FILE *out, const struct rp_manifest_provider *provider)
{
	const struct rp_manifest_event *event;
	const char *symbol = provider->symbol;
	size_t count = 0;

	for (event = provider->events; event; event = event->next, count++) {
		fprintf(out, "\nstatic void fire_%s_%s", symbol, event->symbol);
		write_prototype(out, provider, event, "void *host_data_");
		fprintf(out, "\n{\n\t(void)host_data_;\n\t(void)%s_%s(", symbol, event->symbol);
		rp_write_arguments(out, event->template);
		fputs(");\n}\n", out);
	}
	write_signatures(out, provider);
	fprintf(out, "\nconst struct %s_component_events %s_component_host_events = {\n"
		"\t{ sizeof(struct %s_component_events), %zu, %s_signatures_ }", symbol, symbol,
		symbol, count, symbol);
	for (event = provider->events; event; event = event->next)
		fprintf(out, ",\n\tfire_%s_%s", symbol, event->symbol);
	fputs("\n};\n", out);
}

void rp_write_component_host_source(FILE *out, const struct rp_manifest *manifest,
				    const char *source, const char *stem)
{
	const struct rp_manifest_provider *provider = manifest->providers;

	rp_write_mark(out, "/* ", source, " */");
	fprintf(out, "#include \"%s_component_host.h\"\n", stem);
	for (; provider; provider = provider->next)
		write_host_table(out, provider);
}
