/* SPDX-License-Identifier: MIT */
/* Whose events they are, in a trace of several processes: what weave.c told, read again. */
#ifndef RP_TOOL_PROCESSES_H
#define RP_TOOL_PROCESSES_H

#include <stdbool.h>

#include <ringpipe/reader.h>

#include "nettrace/threads.h"

/* One of them; or, when another program took its place, the part up to there. */
struct rp_process {
	uint32_t pid;
	uint32_t parent;		/* 0: not known */
	char *name;
	char *command_line;
	uint64_t events;		/* of its threads */
	uint64_t lost;
	bool complete;
};

struct rp_processes {
	struct rp_process *rows;	/* in the order of their first events */
	size_t count;			/* 0: the trace is of one process */
	struct rp_thread_table threads;	/* the number of each: its row's index, from 1 */
};

/*
 * To be called with each event. `ret_index`: whose it is, or SIZE_MAX where that is not told. What
 * does not look as weave.c tells it is passed over. Return: 0 or -ENOMEM.
 */
int rp_processes_follow(struct rp_processes *processes, const struct rp_reader_event *event,
			size_t *ret_index);
void rp_processes_fini(struct rp_processes *processes);

#endif
