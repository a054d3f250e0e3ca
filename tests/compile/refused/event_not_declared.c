/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_EVENT(shop, sold, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(n));

int fire(void);

int fire(void)
{
#ifndef REPAIRED
	shop_bought(7);	/* refused */
#endif
	return 0;
}
