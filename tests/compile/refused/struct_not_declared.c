/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");

#ifndef REPAIRED
RP_EVENT(shop, moved, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_STRUCT_ARRAY(p, to));	/* refused */
#endif
