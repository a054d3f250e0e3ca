/* SPDX-License-Identifier: MIT */
/*
 * Reads any text as a manifest, and writes all forms of code for each valid manifest.
 * reader_fuzz.c shows how to run it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input.h"
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
	static char path[64];
	static FILE *out;
	static int fd = -1;
	struct rp_manifest manifest;
	int ret;

	if (fd < 0) {
		fd = memfd_create("manifest", MFD_CLOEXEC);
		out = fopen("/dev/null", "we");
		/* Sanitizers write to the descriptor; the reports of rules are not needed. */
		stderr = fopen("/dev/null", "we");
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (fd < 0 || !out || !stderr || ftruncate(fd, 0) != 0 ||
	    pwrite(fd, bytes, size, 0) != (ssize_t)size)
		abort();
	ret = rp_manifest_read(&manifest, path, size % 2 ? "de-DE" : NULL);
	if (ret == 0)
		write_all(&manifest, out);
	else if (ret != -EBADMSG)
		__builtin_trap();
	rp_manifest_free(&manifest);
	return 0;
}
