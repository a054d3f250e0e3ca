/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_EVENT(shop, sold, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_GUID(order));

int fire(void);

int fire(void)
{
#ifndef REPAIRED
	shop_sold("6f1b7a3c");	/* refused */
#endif
	return 0;
}
