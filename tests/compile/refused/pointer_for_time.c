/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_EVENT(shop, sold, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_TIME(when));

int fire(void);

int fire(void)
{
	static const int64_t when = 1;
	(void)when;

#ifndef REPAIRED
	shop_sold(&when);	/* refused */
#endif
	return 0;
}
