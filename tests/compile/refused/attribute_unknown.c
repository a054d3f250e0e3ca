/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
#ifndef REPAIRED
RP_EVENT_EX(shop, sold, (RP_ID(1), RP_U64(n)));	/* refused: not_an_attribute */
#else
RP_EVENT_EX(shop, sold, (RP_ID(1)), RP_U64(n));
#endif
