/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");

#ifndef REPAIRED
RP_EVENT(store, sold, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(n));	/* refused */
#endif
