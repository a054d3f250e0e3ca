/* SPDX-License-Identifier: MIT */
/* ringpipe view: shows traces in a browser, or writes a page that works without the command. */
#ifndef RP_TOOL_VIEW_RUN_H
#define RP_TOOL_VIEW_RUN_H

#include "tools/cli/tool.h"

/* Run the command. Return: the exit status. */
int rp_view_run(const struct rp_tool_options *options);

#endif
