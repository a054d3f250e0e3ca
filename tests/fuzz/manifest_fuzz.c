/* SPDX-License-Identifier: MIT */
/*
 * Reads any text as a manifest. Writes all forms of code for each valid manifest, and expects one
 * line with the place and the rule for each other one. reader_fuzz.c shows how to run it.
 */
#include <errno.h>
#include <stdbool.h>

#include "input.h"
#include "input_file.h"
#include "tools/cli/tool.h"
#include "tools/ringpipe-gen/manifest.h"
#include "tools/ringpipe-gen/write_c.h"

static void write_all(const struct rp_manifest *manifest, FILE *out)
{
	rp_write_header(out, manifest, "any.man", "any");
	rp_write_source(out, manifest, "any.man", "any");
	rp_write_lttng_header(out, manifest, "any.man", "any");
	rp_write_lttng_source(out, manifest, "any.man", "any");
	rp_write_dtrace(out, manifest, "any.man", "any");
	rp_write_markdown(out, manifest, "any.man", "any");
}

/* Return: whether the message is one line of the form "ringpipe: PATH:LINE:COLUMN: RULE". */
static bool is_message(const char *message, const char *path)
{
	const size_t prefix = strlen("ringpipe: "), name = strlen(path);
	unsigned long line = 0, column = 0;
	int rule = 0;

	return !strncmp(message, "ringpipe: ", prefix) &&
	       !strncmp(message + prefix, path, name) &&
	       sscanf(message + prefix + name, ":%lu:%lu: %n", &line, &column, &rule) == 2 &&
	       rule > 0 && line > 0 && column > 0 && message[prefix + name + rule] > ' ' &&
	       strchr(message, '\n') == message + strlen(message) - 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *path = fuzz_file(bytes, size);
	struct rp_manifest manifest;
	char message[4096] = "";
	FILE *log = fmemopen(message, sizeof(message), "w");
	int ret;

	if (!log)
		abort();
	rp_tool_set_error_log(log);
	ret = rp_manifest_read(&manifest, path, size % 2 ? "de-DE" : NULL);
	rp_tool_set_error_log(NULL);
	fclose(log);
	if (ret == 0)
		write_all(&manifest, fuzz_output());
	if (ret == 0 ? *message != '\0' : ret != -EBADMSG || !is_message(message, path))
		__builtin_trap();
	rp_manifest_free(&manifest);
	return 0;
}
