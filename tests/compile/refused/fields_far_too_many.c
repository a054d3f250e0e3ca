/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");

#define EIGHT(a) RP_U8(a##1), RP_U8(a##2), RP_U8(a##3), RP_U8(a##4), RP_U8(a##5), RP_U8(a##6), \
	RP_U8(a##7), RP_U8(a##8)
#define MOST EIGHT(a), EIGHT(b), EIGHT(c), EIGHT(d)
#define DECLARE(...) RP_EVENT(shop, sold, 1, RP_LEVEL_INFORMATIONAL, 0x1, __VA_ARGS__)

#ifndef REPAIRED
DECLARE(MOST, MOST);	/* refused: too many fields: there may be up to 32 */
#else
DECLARE(MOST);
#endif
