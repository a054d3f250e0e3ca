/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
#ifndef REPAIRED
RP_EVENT(shop, sold, 1, 6, 0x1, RP_U64(n));	/* refused: level is above 5 */
#else
RP_EVENT(shop, sold, 1, 5, 0x1, RP_U64(n));
#endif
