/* SPDX-License-Identifier: MIT */
/* The module's one function, for programs that link it; the library loads it by name. */
#ifndef RP_SYMBOLS_FIND_H
#define RP_SYMBOLS_FIND_H

#include <ringpipe/types.h>

#include "host/symbols.h"

/* As rp_symbols_find_callback says. */
RP_PUBLIC int rp_symbols_find(const struct rp_symbols_query *query);

#endif
