/* SPDX-License-Identifier: MIT */
/* Shared by the files of `ringpipe tail`: of one process, and of the whole machine. */
#ifndef RP_TOOL_TAIL_H
#define RP_TOOL_TAIL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/cli/tool.h"
#include "tools/client/recording.h"
#include "tools/trace/event_expression.h"

/* In memory that the processes of the command share. */
struct rp_tail_shared {
	pthread_mutex_t lock;		/* robust; whoever holds it may write to standard output */
	uint64_t printed, events, lost;	/* atomic; of the sessions that have ended */
	bool reader_left;		/* nothing reads standard output any more */
};

struct rp_tail {
	const struct rp_tool_options *options;
	struct rp_recording_plan plan;
	struct rp_expression *where;	/* or NULL */
	struct rp_tail_shared *shared;
	bool machine;			/* lines and messages name the process */
};

/*
 * Print the events of a process until its session ends. `plan.signal_fd` receives the signals that
 * stop it. Return: the exit status.
 */
int rp_tail_process(struct rp_tail *tail, const struct rp_target *target);

/* Print the events of all processes, also of those that start later, until a signal. Likewise. */
int rp_tail_machine(struct rp_tail *tail);

#endif
