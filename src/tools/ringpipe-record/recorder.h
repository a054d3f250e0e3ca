/* SPDX-License-Identifier: MIT */
/* Records the machine: from the kernel's records to the trace. */
#ifndef RP_RECORD_RECORDER_H
#define RP_RECORD_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/trace/output.h"
#include "tools/client/proc.h"
#include "tools/ringpipe-record/stop_requests.h"

struct rp_images;

struct rp_recorder_options {
	uint32_t frequency_hz;
	uint64_t wait_ns;		/* record waits, calls, interrupts of at least this time */
	unsigned int groups;		/* more to record: enum rp_waits_group */
	bool without_waits;
	size_t buffer_bytes;		/* for all rings that the kernel fills */
	struct rp_proc_roots roots;	/* their array must exist as long as the recorder */
	struct rp_proc_filter filter;
	struct rp_output *output;
	struct rp_stop_requests *stop_requests;	/* must exist as long as the recorder */
};

/* Why records are missing in the trace. */
enum rp_recorder_loss {
	RP_RECORDER_RING_FULL,		/* perf_events: the ring of a processor */
	RP_RECORDER_RECORD_DAMAGED,	/* perf_events: not as documented */
	RP_RECORDER_WAITS_FULL,		/* the ring of the BPF programs */
	RP_RECORDER_SWITCHES_FULL,	/* a ring of switches, where BPF is refused */
	RP_RECORDER_POINTS_FULL,	/* a ring of tracepoints, likewise */
	RP_RECORDER_WAITS_MEMORY,	/* no memory for the state of a thread */
	RP_RECORDER_LOSS_COUNT,
};

/* The reason in words, for messages and the trace. */
const char *rp_recorder_loss_text(enum rp_recorder_loss loss);

struct rp_recorder_stats {
	uint64_t samples, waits, processes, functions;
	uint64_t calls, futex_waits, faults, requests, interrupts;
	uint64_t suspended_ns;		/* the machine, in all */
	uint64_t lost[RP_RECORDER_LOSS_COUNT];
	uint64_t late;
	uint64_t whole_stacks;		/* walks that reached the outermost function */
	uint64_t cut_stacks;		/* other walks */
	uint64_t bytes;
	size_t memory_bytes;
};

struct rp_recorder;

/*
 * Open the kernel's events. Explains on standard error why it cannot, and what is left out.
 * Return: 0; -errno.
 */
int rp_recorder_create(const struct rp_recorder_options *options,
		       struct rp_recorder **ret_recorder);
void rp_recorder_destroy(struct rp_recorder *recorder);

int rp_recorder_start(struct rp_recorder *recorder);

/* Get descriptors that become readable when rp_recorder_pass() should be called; -1: none. */
#define RP_RECORDER_FDS 3
void rp_recorder_fds(const struct rp_recorder *recorder, int ret_fds[RP_RECORDER_FDS]);

/*
 * Write what the kernel recorded, up to the previous pass. Call it ten times a second at least.
 * 0; -ENOMEM; -errno of write(2).
 */
int rp_recorder_pass(struct rp_recorder *recorder);

/* Stop the kernel's events. Call it once, also after an error: a full ring counts losses. */
void rp_recorder_stop(struct rp_recorder *recorder);

/*
 * After the stop, write the rest with the names of functions and the end of the trace. This takes
 * the stop requests, and leaves out names that are not found at the second one.
 */
int rp_recorder_finish(struct rp_recorder *recorder);

/* The files with the code of processes that were recorded. Valid as long as the recorder. */
const struct rp_images *rp_recorder_images(const struct rp_recorder *recorder);

void rp_recorder_stats(const struct rp_recorder *recorder, struct rp_recorder_stats *ret_stats);

#endif
