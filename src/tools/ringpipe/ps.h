/* SPDX-License-Identifier: MIT */
/* ringpipe ps: the rows of processes that were found. */
#ifndef RP_TOOL_PS_H
#define RP_TOOL_PS_H

#include "tools/cli/tool.h"
#include "tools/client/target.h"

/*
 * Ask all processes of the list what they are, within one deadline, and print a row for each.
 * Return: the exit status; failures are reported.
 */
int rp_ps_print(const struct rp_target_list *list, enum rp_format format);

#endif
