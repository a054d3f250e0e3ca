/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
#ifndef REPAIRED
RP_RAW_EVENT(shop, sold, (RP_ID(65535)));	/* refused: above 65534 */
#else
RP_RAW_EVENT(shop, sold, (RP_ID(65534)));
#endif
