/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");

#define FIELDS RP_U8(a01), RP_U8(a02), RP_U8(a03), RP_U8(a04), RP_U8(a05), RP_U8(a06), \
	RP_U8(a07), RP_U8(a08), RP_U8(a09), RP_U8(a10), RP_U8(a11), RP_U8(a12), \
	RP_U8(a13), RP_U8(a14), RP_U8(a15), RP_U8(a16), RP_U8(a17), RP_U8(a18), \
	RP_U8(a19), RP_U8(a20), RP_U8(a21), RP_U8(a22), RP_U8(a23), RP_U8(a24), \
	RP_U8(a25), RP_U8(a26), RP_U8(a27), RP_U8(a28), RP_U8(a29), RP_U8(a30), \
	RP_U8(a31), RP_U8(a32), RP_U8(a33)
#define DECLARE(...) RP_EVENT(shop, sold, 1, RP_LEVEL_INFORMATIONAL, 0x1, __VA_ARGS__)

#ifndef REPAIRED
DECLARE(FIELDS);	/* refused */
#endif
