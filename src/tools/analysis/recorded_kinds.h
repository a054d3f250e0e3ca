/* SPDX-License-Identifier: MIT */
/* Which kinds of records a trace of `ringpipe record` has, as the trace itself shows. */
#ifndef RP_TOOL_RECORDED_KINDS_H
#define RP_TOOL_RECORDED_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/reader.h>

/* The groups of records that `ringpipe record --kernel` selects. */
enum rp_time_group {
	RP_TIME_GROUP_SCHED, RP_TIME_GROUP_SYSCALLS, RP_TIME_GROUP_FUTEX, RP_TIME_GROUP_FAULTS,
	RP_TIME_GROUP_BLOCK, RP_TIME_GROUP_IRQ, RP_TIME_GROUP_COUNT,
};

/* Initialise it with zeros. */
struct rp_recorded_kinds {
	bool has_waits, has_calls;	/* the trace has such records */
	bool states_groups;		/* the trace states what was recorded */
	unsigned int missing_groups;	/* bits by enum rp_time_group; of any recorder */
	uint64_t threshold_ns;		/* shorter waits, calls and interrupts have no records */
	uint64_t lost;			/* records that the recorder lost, as the trace states */
	bool lacks_processes;		/* it is unknown which processes have records of waits */
	/* For recorded_kinds.c only. */
	void *processes;		/* tree of those with a record of a wait */
	uint64_t last_process;
};

/* Take an event of the trace. Return: 0; -ENOMEM. */
int rp_recorded_kinds_take(struct rp_recorded_kinds *kinds, const struct rp_reader_event *event);

/*
 * Take a kind of event that the index of the trace has, instead of its events. It has no processes,
 * and rp_recorded_kinds_has_process() then assumes that each one has records of waits.
 */
void rp_recorded_kinds_take_type(struct rp_recorded_kinds *kinds,
				 const struct rp_reader_type *type);

/* Return: whether a thread of the process has a record of a wait. */
bool rp_recorded_kinds_has_process(const struct rp_recorded_kinds *kinds, uint64_t process);

void rp_recorded_kinds_fini(struct rp_recorded_kinds *kinds);

#endif
