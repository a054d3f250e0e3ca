/* SPDX-License-Identifier: MIT */
/* Shared by the parts of `ringpipe report`. */
#ifndef RP_TOOL_REPORT_H
#define RP_TOOL_REPORT_H

#include <stddef.h>

#include <ringpipe/reader.h>

#include "tools/cli/tool.h"

/*
 * Print each event on standard output. `path` names the trace in messages. `file`, or NULL, is read
 * first for the names of functions, which are at its end. Return: the exit status.
 */
int rp_report_events(struct rp_reader *reader, const char *path, const char *file,
		     const struct rp_tool_options *options);

#endif
