/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_STRUCT(point, RP_I32(x), RP_I32(y));
RP_STRUCT(size, RP_I32(w), RP_I32(h));
RP_EVENT(shop, moved, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_STRUCT_FIELD(point, to));

int fire(void);

int fire(void)
{
	static const struct size size = { 1, 2 };
	(void)size;

#ifndef REPAIRED
	shop_moved(&size);	/* refused */
#endif
	return 0;
}
