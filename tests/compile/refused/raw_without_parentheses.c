/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
#ifndef REPAIRED
RP_RAW_EVENT(shop, sold, RP_ID(1));	/* refused */
#else
RP_RAW_EVENT(shop, sold, (RP_ID(1)));
#endif
