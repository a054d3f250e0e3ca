/* SPDX-License-Identifier: MIT */
/*
 * ringpipe-gen: `ringpipe gen` executes it with the same arguments, so that `ringpipe` needs no
 * expat.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/gen_options.h"
#include "tools/cli/tool.h"
#include "tools/ringpipe-gen/binary_events.h"
#include "tools/ringpipe-gen/manifest.h"
#include "tools/ringpipe-gen/write_c.h"
#include "tools/ringpipe-gen/write_manifest.h"

struct generation {
	const struct rp_tool_options *options;
	const struct rp_manifest *manifest;
	const char *source;		/* the name of the manifest without its folder */
	char stem[256];			/* the name of the files without their suffix */
};

struct output {
	const char *forms[3];		/* up to the first NULL; "all" selects every output */
	const char *suffix;
	void (*write)(FILE *out, const struct rp_manifest *manifest, const char *source,
		      const char *stem);
};

static const struct output outputs[] = {
	{ { "c", "lttng", "component" }, ".h", rp_write_header },
	{ { "c", "lttng", "component" }, ".c", rp_write_source },
	{ { "lttng" }, "_lttng.h", rp_write_lttng_header },
	{ { "lttng" }, "_lttng.c", rp_write_lttng_source },
	{ { "component" }, "_component.h", rp_write_component_header },
	{ { "component" }, "_component.c", rp_write_component_source },
	{ { "component" }, "_component_stub.h", rp_write_component_stub },
	{ { "component" }, "_component_host.h", rp_write_component_host_header },
	{ { "component" }, "_component_host.c", rp_write_component_host_source },
	{ { "dtrace" }, ".d", rp_write_dtrace },
	{ { "markdown" }, ".md", rp_write_markdown },
};

#define OUTPUT_COUNT (sizeof(outputs) / sizeof(outputs[0]))

static bool is_selected(const struct output *output, const char *form)
{
	for (size_t i = 0; i < 3 && output->forms[i]; i++) {
		if (!strcmp(form, output->forms[i]))
			return true;
	}
	return !strcmp(form, "all");
}

static bool is_form(const char *form)
{
	for (size_t i = 0; i < OUTPUT_COUNT; i++) {
		if (is_selected(&outputs[i], form))
			return true;
	}
	return false;
}

/* Whether a file may be replaced: it is generated, or there is none. */
static bool may_replace(const char *path)
{
	char begin[sizeof(RP_GENERATED_MARK) + 16] = "";
	FILE *file = fopen(path, "re");
	size_t size;

	if (!file)
		return errno == ENOENT || errno == ENOTDIR;
	size = fread(begin, 1, sizeof(begin) - 1, file);
	fclose(file);
	begin[size] = '\0';
	return strstr(begin, RP_GENERATED_MARK) != NULL;
}

/* Return: 0; -errno. */
static int write_file(const char *path, const char *text, size_t size)
{
	FILE *file = fopen(path, "we");
	int ret = 0;

	if (!file)
		return -errno;
	if (fwrite(text, 1, size, file) != size)
		ret = -errno;
	if (fclose(file) != 0 && ret == 0)
		ret = -errno;
	if (ret < 0)
		unlink(path);
	return ret;
}

/* Write the file unless it has contents that the command did not generate. */
static int store(const struct rp_tool_options *options, const char *path, const char *text,
		 size_t size)
{
	int ret;

	if (!strcmp(path, "-"))
		return fwrite(text, 1, size, stdout) == size ? RP_EXIT_OK : RP_EXIT_FAILURE;
	if (!(options->given & RP_OPTION_FORCE) && !may_replace(path)) {
		rp_tool_error("%s exists and was not generated; --force replaces it", path);
		return RP_EXIT_FAILURE;
	}
	ret = write_file(path, text, size);
	if (ret < 0)
		rp_tool_error("cannot write %s: %s", path, strerror(-ret));
	return ret < 0 ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

static int report_no_memory(void)
{
	rp_tool_error("out of memory");
	return RP_EXIT_FAILURE;
}

static int generate_file(const struct generation *generation, const struct output *output)
{
	char path[PATH_MAX], *text = NULL;
	size_t size = 0;
	FILE *memory;
	int status;

	if (snprintf(path, sizeof(path), "%s/%s%s", generation->options->output, generation->stem,
		     output->suffix) >= (int)sizeof(path)) {
		rp_tool_error("gen: the path of the output is too long");
		return RP_EXIT_FAILURE;
	}
	memory = open_memstream(&text, &size);
	if (!memory)
		return report_no_memory();
	output->write(memory, generation->manifest, generation->source, generation->stem);
	if (fclose(memory) != 0) {
		free(text);
		return report_no_memory();
	}
	status = store(generation->options, path, text, size);
	free(text);
	return status;
}

static int generate(struct generation *generation)
{
	const char *directory = generation->options->output, *dot;
	const char *form = generation->options->to ? generation->options->to : "c";
	int status = RP_EXIT_OK;

	dot = strrchr(generation->source, '.');
	snprintf(generation->stem, sizeof(generation->stem), "%.*s",
		 (int)(dot && dot != generation->source ? dot - generation->source :
		       (ptrdiff_t)strlen(generation->source)), generation->source);
	if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
		rp_tool_error("cannot create %s: %s", directory, strerror(errno));
		return RP_EXIT_FAILURE;
	}
	for (size_t i = 0; i < OUTPUT_COUNT && status == RP_EXIT_OK; i++) {
		if (is_selected(&outputs[i], form))
			status = generate_file(generation, &outputs[i]);
	}
	return status;
}

static void report_notes(const struct rp_manifest *manifest)
{
	const struct rp_manifest_provider *provider = manifest->providers;

	for (; provider; provider = provider->next) {
		if (provider->has_channels)
			rp_tool_say(stderr, "%s: the channels of %s are ignored; sessions select "
				    "events by keyword and level", manifest->tree.path,
				    provider->name);
	}
}

static const char *without_folder(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Write a manifest from the events that an ELF file declares. */
static int write_manifest_of(const struct rp_tool_options *options)
{
	struct rp_binary_events events;
	int status = RP_EXIT_FAILURE;
	char *text = NULL;
	size_t size = 0;
	FILE *memory;

	if (rp_binary_events_read(&events, options->binary) < 0)
		goto out;
	memory = open_memstream(&text, &size);
	if (!memory) {
		report_no_memory();
		goto out;
	}
	status = rp_write_manifest(memory, &events, without_folder(options->binary)) < 0 ?
		 RP_EXIT_FAILURE : RP_EXIT_OK;
	if (fclose(memory) != 0 || status != RP_EXIT_OK)
		status = report_no_memory();
	else
		status = store(options, options->output, text, size);
	free(text);
out:
	rp_binary_events_free(&events);
	return status;
}

static int read_manifest(const struct rp_tool_options *options)
{
	struct generation generation = { .options = options };
	const char *path = options->operands[0];
	struct rp_manifest manifest;
	int status = RP_EXIT_FAILURE;

	generation.source = without_folder(path);
	generation.manifest = &manifest;
	if (rp_manifest_read(&manifest, path, options->culture) == 0) {
		if (!(options->given & RP_OPTION_QUIET))
			report_notes(&manifest);
		status = generate(&generation);
	}
	rp_manifest_free(&manifest);
	return status;
}

static int run(const struct rp_tool_options *options)
{
	const bool from_binary = options->given & RP_OPTION_FROM_BINARY;

	if (!options->output) {
		rp_tool_error("gen: requires -o %s; see ringpipe gen --help",
			      from_binary ? "FILE" : "DIR");
		return RP_EXIT_USAGE;
	}
	if (from_binary == (options->operand_count > 0)) {
		rp_tool_error("gen: give either a manifest or --from-binary");
		return RP_EXIT_USAGE;
	}
	if (from_binary && (options->to || options->culture)) {
		rp_tool_error("gen: --from-binary writes a manifest, so --%s does not apply",
			      options->to ? "to" : "culture");
		return RP_EXIT_USAGE;
	}
	if (options->to && !is_form(options->to)) {
		rp_tool_error("gen: --to is c, lttng, component, dtrace, markdown or all, not %s",
			      options->to);
		return RP_EXIT_USAGE;
	}
	return from_binary ? write_manifest_of(options) : read_manifest(options);
}

int main(int argc, char **argv)
{
	static const struct rp_tool_command command = {
		.name = "gen",
		.arguments = "MANIFEST",
		.options = RP_GEN_OPTIONS,
		.operands_min = 0,
		.operands_max = 1,
		.run = run,
	};

	return rp_options_run(&command, argc, argv);
}
