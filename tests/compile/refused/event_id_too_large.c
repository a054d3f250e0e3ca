/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_EVENT(shop, sold, 65534, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(n));

#ifndef REPAIRED
RP_EVENT(shop, returned, 65535, RP_LEVEL_INFORMATIONAL, 0x1);	/* refused: id is above 65534 */
#endif
