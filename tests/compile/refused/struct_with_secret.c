/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");

#ifndef REPAIRED
RP_STRUCT(card, RP_SECRET(RP_U64(number)), RP_U16(month));	/* refused */
#endif
