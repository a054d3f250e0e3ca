/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_COUNTER(shop, sold, "things", NULL);

int fire(void);

int fire(void)
{
#ifndef REPAIRED
	shop_sold_add("one");	/* refused */
#endif
	return 0;
}
