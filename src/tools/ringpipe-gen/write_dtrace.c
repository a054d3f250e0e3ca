/* SPDX-License-Identifier: MIT */
/*
 * Definitions of probes for dtrace(1), for programs that do not use ringpipe. `dtrace -h` generates
 * a header from them. A ringpipe event already has a probe.
 */
#include "tools/ringpipe-gen/write_c.h"

/* The type of a probe's argument: a pointer for everything that is not a number. */
static const char *argument_type(const struct rp_manifest_field *field)
{
	static const char *const types[RP_MANIFEST_STRUCT + 1] = {
		[RP_MANIFEST_ANSI_STRING] = "char *",
		[RP_MANIFEST_COUNTED_ANSI_STRING] = "char *",
		[RP_MANIFEST_INT8] = "int8_t",
		[RP_MANIFEST_UINT8] = "uint8_t",
		[RP_MANIFEST_INT16] = "int16_t",
		[RP_MANIFEST_UINT16] = "uint16_t",
		[RP_MANIFEST_INT32] = "int32_t",
		[RP_MANIFEST_UINT32] = "uint32_t",
		[RP_MANIFEST_INT64] = "int64_t",
		[RP_MANIFEST_UINT64] = "uint64_t",
		[RP_MANIFEST_FLOAT] = "float",
		[RP_MANIFEST_DOUBLE] = "double",
		[RP_MANIFEST_BOOLEAN] = "int",
		[RP_MANIFEST_FILETIME] = "int64_t",
	};
	const bool is_value = rp_field_is_single(field) && types[field->type];

	return is_value ? types[field->type] : "void *";
}

static void write_probe(FILE *out, const struct rp_manifest_event *event)
{
	const struct rp_manifest_field *field = event->template ? event->template->fields : NULL;

	fprintf(out, "\tprobe %s(", event->symbol);
	for (; field; field = field->next)
		fprintf(out, "%s %s%s", argument_type(field), field->symbol, field->next ? ", " :
			"");
	fputs(");\n", out);
}

void rp_write_dtrace(FILE *out, const struct rp_manifest *manifest, const char *source,
		     const char *stem)
{
	const struct rp_manifest_provider *provider = manifest->providers;

	(void)stem;
	rp_write_mark(out, "/* ", source, " */");
	for (; provider; provider = provider->next) {
		fprintf(out, "\nprovider %s {\n", provider->symbol);
		for (const struct rp_manifest_event *event = provider->events; event;
		     event = event->next)
			write_probe(out, event);
		fputs("};\n", out);
	}
}
