/* SPDX-License-Identifier: MIT */
/* The commands of `ringpipe`, in the order of the help. */
#ifndef RP_TOOL_COMMAND_TABLE_H
#define RP_TOOL_COMMAND_TABLE_H

#include "tools/cli/tool.h"

extern const struct rp_tool_command rp_commands[];
extern const size_t rp_command_count;

/* `ringpipe help`; it is in main.c, next to the code that prints help. */
int rp_command_help(const struct rp_tool_options *options);

#endif
