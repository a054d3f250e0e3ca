/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_EVENT(shop, sold, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_ARRAY(U32, items));

int fire(void);

int fire(void)
{
	static const uint32_t items[] = { 1, 2 };
	(void)items;

#ifndef REPAIRED
	shop_sold(items);	/* refused */
#endif
	return 0;
}
