/* SPDX-License-Identifier: MIT */
/*
 * The counterpart of keys.c's event. Its check is a load and a branch, whatever the build's default
 * is.
 */
#undef RP_STATIC_KEYS
#define RP_STATIC_KEYS 0

#include <ringpipe/ringpipe.h>

#include "keys.h"

RP_PROVIDER(plain, "Bench-Plain");
RP_EVENT(plain, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

void write_plain(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		plain_bytes32(i, i, i, i);
}
