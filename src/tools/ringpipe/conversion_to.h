/* SPDX-License-Identifier: MIT */
/* ringpipe convert --to FORMAT: writes a trace in the format of another tool. */
#ifndef RP_TOOL_CONVERSION_TO_H
#define RP_TOOL_CONVERSION_TO_H

#include "tools/cli/tool.h"

/* Return: the exit status. */
int rp_convert_to(const struct rp_tool_options *options);

#endif
