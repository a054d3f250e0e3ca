/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

#define EIGHT(a) RP_U8(a##1), RP_U8(a##2), RP_U8(a##3), RP_U8(a##4), RP_U8(a##5), RP_U8(a##6), \
	RP_U8(a##7), RP_U8(a##8)
#define MOST EIGHT(a), EIGHT(b), EIGHT(c), EIGHT(d)
#define DECLARE(...) RP_STRUCT(sale, __VA_ARGS__)

#ifndef REPAIRED
DECLARE(MOST, RP_U8(one));	/* refused: too many members: there may be up to 32 */
#else
DECLARE(MOST);
#endif
