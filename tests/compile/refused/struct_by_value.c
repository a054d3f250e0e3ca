/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_STRUCT(point, RP_I32(x), RP_I32(y));
RP_EVENT(shop, moved, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_STRUCT_FIELD(point, to));

int fire(void);

int fire(void)
{
	static const struct point to = { 1, 2 };
	(void)to;

#ifndef REPAIRED
	shop_moved(to);	/* refused */
#endif
	return 0;
}
