/* SPDX-License-Identifier: MIT */
/* Options that both `ringpipe gen` and the program ringpipe-gen parse. */
#ifndef RP_TOOL_GEN_OPTIONS_H
#define RP_TOOL_GEN_OPTIONS_H

#include "tools/cli/tool.h"

#define RP_GEN_OPTIONS \
	(RP_OPTION_DIRECTORY | RP_OPTION_GENERATE | RP_OPTION_CULTURE | RP_OPTION_FROM_BINARY | \
	 RP_OPTION_FORCE | RP_OPTION_QUIET | RP_OPTION_HELP)

#endif
