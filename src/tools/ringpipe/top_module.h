/* SPDX-License-Identifier: MIT */
/* Loads the module that reads symbol tables. */
#ifndef RP_TOOL_TOP_MODULE_H
#define RP_TOOL_TOP_MODULE_H

#include "host/symbols.h"

/*
 * Load the module from the folder of the library next to this command's, or where the loader finds
 * it. Return: its function; NULL: there is no module, or a library that it needs is missing.
 */
rp_symbols_find_callback rp_top_module_load(void);

#endif
