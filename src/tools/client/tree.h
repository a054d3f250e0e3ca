/* SPDX-License-Identifier: MIT */
/* Records a process and all its descendants into one file. */
#ifndef RP_TOOL_TREE_H
#define RP_TOOL_TREE_H

#include "tools/client/recording.h"

/*
 * Like rp_recording_run(), for plan->target and its descendants, including those that start later,
 * or, with plan->machine, for all processes that this user may trace, until a signal.
 * Also ends when all of them have ended. The output gets its first byte at the end.
 */
void rp_tree_run(const struct rp_recording_plan *plan, struct rp_output *output,
		 struct rp_recording_result *ret_result);

#endif
