/* SPDX-License-Identifier: MIT */
/* Writes a page with the answers that it needs, so that it works without the command. */
#ifndef RP_TOOL_VIEW_FILE_H
#define RP_TOOL_VIEW_FILE_H

#include "tools/cli/tool.h"
#include "tools/view/view_query.h"

/*
 * Write the file of --html, which appears only when it is complete. Return: the exit status, after
 * an error line.
 */
int rp_view_file_write(const struct rp_traces *view, const struct rp_tool_options *options);

#endif
