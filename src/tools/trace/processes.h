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

/* A thread id that passed to another process. */
struct rp_thread_pass {
	uint64_t thread;
	int64_t until_ns;
	size_t index;			/* the row of the process that had the id before */
};

struct rp_processes {
	struct rp_process *rows;	/* in the order of their first events */
	size_t count;			/* 0: the trace has one process */
	struct rp_thread_table threads;	/* maps a thread to its row's index plus 1 */
	bool has_threads;		/* the trace has events that state the threads */
	struct rp_thread_pass *passes;	/* by thread and time after rp_processes_sort() */
	size_t pass_count, pass_capacity;
};

/*
 * Call it with each event. `ret_index` is the event's process, or SIZE_MAX if unknown. Events that
 * do not match the layouts of trace_merge.c are ignored. Return: 0 or -ENOMEM.
 */
int rp_processes_follow(struct rp_processes *processes, const struct rp_reader_event *event,
			size_t *ret_index);

/*
 * Follow the processes, as rp_processes_follow() does. In version 4, events of their own state the
 * processes of threads; in version 6, each event has its process.
 * Return: 0, and the process id of the event's thread; -ENOMEM.
 */
int rp_processes_follow_id(struct rp_processes *processes, const struct rp_reader_event *event,
			   uint64_t *ret_process);

/* Prepare for rp_processes_find(). Further events may follow, and another call after them. */
void rp_processes_sort(struct rp_processes *processes);

/*
 * Return: the process id of the event's thread at the time of the event, by the events that were
 * followed. Call it in another reading of the trace, which may leave out any events.
 */
uint64_t rp_processes_find(const struct rp_processes *processes,
			   const struct rp_reader_event *event);

void rp_processes_fini(struct rp_processes *processes);

/*
 * Find the name of a program in its command line: "server" in "/usr/bin/server -p 80".
 * Return: the name, for free(); NULL: the command line has none, or there is no memory.
 */
char *rp_process_name_of(const char *command_line);

#endif
