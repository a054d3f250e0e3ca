/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_GAUGE(shop, heat, "C", NULL);

int fire(void);

int fire(void)
{
#ifndef REPAIRED
	shop_heat_add(1);	/* refused */
#endif
	return 0;
}
