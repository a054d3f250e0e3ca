/* SPDX-License-Identifier: MIT */
/* The options --from and --to of commands that read a trace. */
#ifndef RP_TOOL_TIME_RANGE_H
#define RP_TOOL_TIME_RANGE_H

#include <ringpipe/reader.h>

#include "tools/cli/tool.h"
#include "tools/trace/event_expression.h"
#include "tools/trace/input.h"

/*
 * Make a reader, which has returned no event yet, return only the events of the options' times, and
 * those that describe others. A regular file is read by its index, which is built if necessary.
 * Without either option, the function does nothing, except that it uses an index that is there for
 * the expression. After a failure, the function prints the cause.
 * @command: for messages.
 * @where: blocks may be skipped if they have no event that fulfils it; NULL: none.
 * @path: of the input.
 *
 * Return: 0; -EINVAL: the options do not fit each other or the trace; -ENOMEM; -errno of read(2).
 */
int rp_time_range_apply(const char *command, const struct rp_tool_options *options,
			struct rp_expression *where, const char *path,
			const struct rp_input *input, struct rp_reader *reader);

#endif
