/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_RAW_EVENT(shop, sold, (RP_ID(1)));

int fire(const char *bytes);

int fire(const char *bytes)
{
#ifndef REPAIRED
	shop_sold_write(bytes);	/* refused */
#endif
	return bytes == RP_NULL_;
}
