/* SPDX-License-Identifier: MIT */
/* Options that both `ringpipe record` and the program ringpipe-record parse. */
#ifndef RP_TOOL_RECORD_OPTIONS_H
#define RP_TOOL_RECORD_OPTIONS_H

#include "tools/ringpipe/tool.h"

#define RP_RECORD_OPTIONS \
	(RP_OPTION_PID | RP_OPTION_OUTPUT | RP_OPTION_FORCE | RP_OPTION_PROVIDERS | \
	 RP_OPTION_DURATION | RP_OPTION_RINGS | RP_OPTION_MACHINE | RP_OPTION_PROFILE | \
	 RP_OPTION_OFF_CPU | RP_OPTION_USER | RP_OPTION_CGROUP | RP_OPTION_ARCHIVE | \
	 RP_OPTION_BINARIES | RP_OPTION_QUIET | RP_OPTION_HELP)

#endif
