/* SPDX-License-Identifier: MIT */
/*
 * Reads any bytes as an executable with events, and writes their manifest. reader_fuzz.c shows how
 * to run it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input.h"
#include "tools/ringpipe-gen/binary_events.h"
#include "tools/ringpipe-gen/write_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static char path[64];
	static FILE *out;
	static int fd = -1;
	struct rp_binary_events events;
	int ret;

	if (fd < 0) {
		fd = memfd_create("binary", MFD_CLOEXEC);
		out = fopen("/dev/null", "we");
		/* The sanitizers write to the descriptor, but the reasons are not needed. */
		stderr = fopen("/dev/null", "we");
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (fd < 0 || !out || !stderr || ftruncate(fd, 0) != 0 ||
	    pwrite(fd, bytes, size, 0) != (ssize_t)size)
		abort();
	ret = rp_binary_events_read(&events, path);
	if (ret == 0 && rp_write_manifest(out, &events, "any") != 0)
		__builtin_trap();
	if (ret != 0 && ret != -EBADMSG && ret != -ENOENT)
		__builtin_trap();
	rp_binary_events_free(&events);
	return 0;
}
