/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

RP_PROVIDER(shop, "Shop");

#ifndef REPAIRED
RP_STRUCT(person, RP_I32(age), RP_STRING(name));	/* refused */
#endif
