/* SPDX-License-Identifier: MIT */
/*
 * Reads any bytes as an executable with events, and writes their manifest. reader_fuzz.c shows how
 * to run it.
 */
#include <errno.h>

#include "input.h"
#include "input_file.h"
#include "tools/ringpipe-gen/binary_events.h"
#include "tools/ringpipe-gen/write_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct rp_binary_events events;
	int ret = rp_binary_events_read(&events, fuzz_file(bytes, size));

	if (ret == 0 && rp_write_manifest(fuzz_output(), &events, "any") != 0)
		__builtin_trap();
	if (ret != 0 && ret != -EBADMSG && ret != -ENOENT)
		__builtin_trap();
	rp_binary_events_free(&events);
	return 0;
}
