/* SPDX-License-Identifier: MIT */
/* Sessions in a process and all that descend from it, in one file. */
#ifndef RP_TOOL_TREE_H
#define RP_TOOL_TREE_H

#include "tools/ringpipe/recording.h"

/*
 * As rp_recording_run(), for plan->target and its descendants, also those that begin meanwhile;
 * ends as well when none of them lives any more. The output gets its first byte at the end.
 */
void rp_tree_run(const struct rp_recording_plan *plan, struct rp_output *output,
		 struct rp_recording_result *ret_result);

#endif
