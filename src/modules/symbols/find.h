/* SPDX-License-Identifier: MIT */
/* The module's functions, for programs that link them; the library loads the first by name. */
#ifndef RP_SYMBOLS_FIND_H
#define RP_SYMBOLS_FIND_H

#include <limits.h>

#include <ringpipe/types.h>

#include "host/symbols.h"

/* As rp_symbols_find_callback says. */
RP_PUBLIC int rp_symbols_find(const struct rp_symbols_query *query);

/*
 * Find the debug file that the debug link of the query's file names. For programs that link the
 * function. Return: 0; -ENOENT; -ENOEXEC.
 */
int rp_symbols_find_linked(const struct rp_symbols_query *query, char ret_path[PATH_MAX]);

#endif
