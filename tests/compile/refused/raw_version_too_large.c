/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
#ifndef REPAIRED
RP_RAW_EVENT(shop, sold, (RP_ID(1), RP_VERSION(256)));	/* refused: exceeds 255 */
#else
RP_RAW_EVENT(shop, sold, (RP_ID(1), RP_VERSION(255)));
#endif
