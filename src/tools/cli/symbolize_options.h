/* SPDX-License-Identifier: MIT */
/* Options that both `ringpipe symbolize` and the program ringpipe-symbolize parse. */
#ifndef RP_TOOL_SYMBOLIZE_OPTIONS_H
#define RP_TOOL_SYMBOLIZE_OPTIONS_H

#include "tools/cli/tool.h"

#define RP_SYMBOLIZE_OPTIONS \
	(RP_OPTION_OUTPUT | RP_OPTION_FORCE | RP_OPTION_SYMBOLS | RP_OPTION_INLINES | \
	 RP_OPTION_QUIET | RP_OPTION_HELP)

#endif
