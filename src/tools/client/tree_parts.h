/* SPDX-License-Identifier: MIT */
/* The state of a recording of several processes, for the files that it consists of. */
#ifndef RP_TOOL_TREE_PARTS_H
#define RP_TOOL_TREE_PARTS_H

#include "nettrace/thread_table.h"
#include "tools/cli/signals.h"
#include "tools/client/container.h"
#include "tools/client/tree.h"
#include "tools/trace/trace_merge.h"

#define RP_TREE_NO_END '?'		/* the recorder did not report how it ended */

/*
 * A process of the tree; or, before an execve(2) in it, the earlier program. A process that has a
 * runtime of .NET and libringpipe has a second member, because each has a socket of its own.
 */
struct rp_tree_member {
	pid_t pid;
	pid_t parent;
	pid_t inner_pid;		/* in its pid namespace */
	struct rp_thread_table threads;	/* their ids there -> ids here, in `index` */
	int64_t search_ms;		/* when they may be searched again */
	char container[RP_CONTAINER_MAX];
	uint64_t start_time;
	int64_t clock_offset_ns;	/* of its CLOCK_MONOTONIC, in a time namespace */
	unsigned int execs;
	unsigned int tries;
	bool gone;
	bool is_reaped;			/* gone, and its pid is free */
	bool is_new;			/* it began after the trace */
	bool replaced;			/* by the program of a later member */
	struct rp_tree_member *first;	/* of a second member; NULL: this is the first */
	bool has_second;
	bool is_async;			/* of a second member: which socket is its own */
	struct rp_target target;	/* of the part that is recorded */
	bool has_target;
	pid_t recorder;
	int status_fd;			/* 'b' when the session has begun, then its end; or -1 */
	int spool_fd;			/* or -1 */
	bool begun;
	bool is_part;			/* the file includes it */
	struct rp_trace_merge_source source;	/* if is_part */
	char end;			/* '0' + enum rp_recording_end, or RP_TREE_NO_END */
};

struct rp_tree {
	const struct rp_recording_plan *plan;
	struct rp_output *output;
	struct rp_trace_merge *merge;
	struct rp_trace_merge_source machine;	/* what the kernel recorded */
	int64_t next_merge_ms;
	int error;			/* of the merge: -errno */
	struct rp_tree_member **members;
	size_t count;
	int signal_fd;
	struct rp_stop_signal last_signal;
	int64_t clock_offset_ns;	/* of the trace's clock; 0: it is the machine's */
	int64_t start_ms;
	bool is_running;		/* the processes that existed before are known */
	int64_t next_scan_ms;		/* of all processes */
	int sockets_fd;			/* of inotify: new sockets in TMPDIR; or -1 */
	unsigned int requests;		/* signals to stop */
	unsigned int stops;		/* likewise, and the end of the time; 2: cancelled */
	bool failed;			/* the root cannot be recorded; reported */
	bool has_lost_root;		/* its part cannot be written, for example on a full disk */
};

/* Create the merge. 0; -ENOMEM. */
int rp_tree_merge_start(struct rp_tree *tree);
/* Note that the member's session has begun. */
void rp_tree_merge_add(struct rp_tree *tree, struct rp_tree_member *member);
/* Write what all processes of the machine have sent, unless that was done a moment ago. */
void rp_tree_merge_pass(struct rp_tree *tree);
/* Write the rest, and report what is missing. */
void rp_tree_merge_finish(struct rp_tree *tree, struct rp_recording_result *result);

#endif
