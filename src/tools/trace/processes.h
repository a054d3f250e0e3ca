/* SPDX-License-Identifier: MIT */
/* Maps events to processes in a merged trace, by the events that trace_merge.c wrote. */
#ifndef RP_TOOL_PROCESSES_H
#define RP_TOOL_PROCESSES_H

#include <stdbool.h>

#include <ringpipe/reader.h>

#include "nettrace/thread_table.h"

/* One process, or, if it called execve(2), the part of it up to that call. */
struct rp_process {
	uint32_t pid;
	uint32_t parent;		/* 0: not known */
	char *name;
	char *command_line;
	uint64_t events;		/* number of its threads' events */
	uint64_t lost;
	bool complete;
};

struct rp_processes {
	struct rp_process *rows;	/* in the order of their first events */
	size_t count;			/* 0: the trace has one process */
	struct rp_thread_table threads;	/* maps a thread to its row's index plus 1 */
	bool has_threads;		/* the trace has events that state the threads */
};

/*
 * Call it with each event. `ret_index` is the event's process, or SIZE_MAX if unknown. Events that
 * do not match the layouts of trace_merge.c are ignored. Return: 0 or -ENOMEM.
 */
int rp_processes_follow(struct rp_processes *processes, const struct rp_reader_event *event,
			size_t *ret_index);
void rp_processes_fini(struct rp_processes *processes);

/*
 * Find the name of a program in its command line: "server" in "/usr/bin/server -p 80".
 * Return: the name, for free(); NULL: the command line has none, or there is no memory.
 */
char *rp_process_name_of(const char *command_line);

#endif
