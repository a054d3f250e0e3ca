/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
#ifndef REPAIRED
RP_SPAN_EX(shop, sale, (RP_ONE_IN(10)));	/* refused: a span has no limit */
#else
RP_SPAN_EX(shop, sale, (RP_KEYWORDS(10)));
#endif
