/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_EVENT(shop, paid, 1, RP_LEVEL_INFORMATIONAL, 0, RP_SECRET(RP_STRING(card)));

int pay(void);

int pay(void)
{
#ifndef REPAIRED
	return shop_paid(4711.0);	/* refused */
#endif
	return 0;
}
