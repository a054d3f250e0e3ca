/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");
#ifndef REPAIRED
RP_SPAN_EX(shop, sale, (RP_OPCODE(11)));	/* refused: span have opcodes */
#else
RP_SPAN_EX(shop, sale, (RP_KEYWORDS(10)));
#endif
