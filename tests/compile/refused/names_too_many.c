/* SPDX-License-Identifier: MIT */
#include <ringpipe/ringpipe.h>

#define EIGHT(a) a##1, a##2, a##3, a##4, a##5, a##6, a##7, a##8
#define MOST EIGHT(A), EIGHT(B), EIGHT(C), EIGHT(D)
#define DECLARE(...) RP_ENUM(phase, __VA_ARGS__)

enum phase { MOST, EIGHT(E) };

#ifndef REPAIRED
DECLARE(MOST, E1, E2);	/* refused: too many names: there may be up to 32 */
#else
DECLARE(MOST);
#endif
