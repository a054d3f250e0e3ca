/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
RP_LOG_EVENTS(shop);

int fire(int number);

int fire(int number)
{
#ifndef REPAIRED
	RP_LOG(shop, RP_LEVEL_ERROR, "number %s", number);	/* refused */
#else
	RP_LOG(shop, RP_LEVEL_ERROR, "number %d", number);
#endif
	return 0;
}
