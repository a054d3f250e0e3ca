/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_RAW_EVENT(shop, sold, (RP_ID(1)), RP_U64(n));

int fire(void);

int fire(void)
{
#ifndef REPAIRED
	shop_sold(7);	/* refused */
#endif
	return 0;
}
