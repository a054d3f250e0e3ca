/* SPDX-License-Identifier: MIT */
/* How compressed traces are recognised. */
#include "tools/trace/compression.h"

#include <string.h>

bool rp_compression_is_named(const char *path)
{
	const size_t length = strlen(path);

	return length > 4 && strcmp(path + length - 4, ".zst") == 0;
}

bool rp_compression_is_magic(const uint8_t bytes[4])
{
	return memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0;
}
