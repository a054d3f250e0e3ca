/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");

#ifndef REPAIRED
RP_EVENT(shop, paid, 1, RP_LEVEL_INFORMATIONAL, 0, RP_SECRET(card));	/* refused */
#endif
