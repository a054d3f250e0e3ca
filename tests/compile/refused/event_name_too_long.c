/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

#define SIXTY(a) n123456789n123456789n123456789n123456789n123456789n123456789##a
#define JOIN(a, b) a##b
#define TWICE_(a) JOIN(a, a)
#define TWICE(a) TWICE_(a)
#define DECLARE(event) RP_EVENT(shop, event, 1, RP_LEVEL_INFORMATIONAL, 0x1)

RP_PROVIDER(shop, "Shop");
#ifndef REPAIRED
DECLARE(TWICE(TWICE(TWICE(SIXTY(s)))));	/* refused: name is too long */
#else
DECLARE(TWICE(SIXTY(s)));
#endif
