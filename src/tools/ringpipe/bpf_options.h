/* SPDX-License-Identifier: MIT */
/* Options that both `ringpipe bpf` and the program ringpipe-bpf parse. */
#ifndef RP_TOOL_BPF_OPTIONS_H
#define RP_TOOL_BPF_OPTIONS_H

#include "tools/ringpipe/tool.h"

#define RP_BPF_ARGUMENTS "(count | histogram | print) (-p PID | -n NAME)"
#define RP_BPF_OPTIONS \
	(RP_OPTION_PID | RP_OPTION_NAME | RP_OPTION_EVENT | RP_OPTION_FIELD | RP_OPTION_STEP | \
	 RP_OPTION_PROVIDERS | RP_OPTION_MISSING | RP_OPTION_DURATION | RP_OPTION_BUFFER | \
	 RP_OPTION_REFRESH | RP_OPTION_TOP | RP_OPTION_FORMAT | RP_OPTION_HELP)

#endif
