/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_EVENT(shop, sold, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_STRING(who));

int fire(void);

int fire(void)
{
	static const int number = 7;
	(void)number;

#ifndef REPAIRED
	shop_sold(&number);	/* refused */
#endif
	return 0;
}
