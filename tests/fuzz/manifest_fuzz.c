/* SPDX-License-Identifier: MIT */
/*
 * Reads any text as a manifest, and writes all forms of code for each valid manifest.
 * reader_fuzz.c shows how to run it.
 */
#include <errno.h>

#include "input.h"
#include "input_file.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct rp_manifest manifest;
	int ret = rp_manifest_read(&manifest, fuzz_file(bytes, size), size % 2 ? "de-DE" : NULL);

	if (ret == 0)
		write_all(&manifest, fuzz_output());
	else if (ret != -EBADMSG)
		__builtin_trap();
	rp_manifest_free(&manifest);
	return 0;
}
