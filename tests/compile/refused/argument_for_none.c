/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_EVENT(shop, opened, 1, RP_LEVEL_INFORMATIONAL, 0x1);

int fire(void);

int fire(void)
{
#ifndef REPAIRED
	shop_opened(7);	/* refused */
#endif
	return 0;
}
