/* SPDX-License-Identifier: MIT */
/*
 * What a BPF program finds at the probe `ringpipe:batch` of libringpipe: events by the thousand for
 * one trap. The probe's arguments are a pointer to the events, their bytes, their number, and the
 * id of the session; the events lie one behind the other, in the order of time, each a struct
 * rp_batch_event.
 *
 * The probe is fired while a batch session runs, which a client of the diagnostics socket starts;
 * `ringpipe bpf` is one. Compiles for BPF, too.
 */
#ifndef RINGPIPE_BATCH_H
#define RINGPIPE_BATCH_H

#include <stdint.h>

/* The most bytes of one batch; an event that takes more than all of it is cut. */
#define RP_BATCH_BYTES_MAX 65536u

enum rp_batch_flags {
	RP_BATCH_ACTIVITY = 1,		/* it has an activity id */
	RP_BATCH_RELATED = 2,		/* and a related activity's */
	RP_BATCH_CUT = 4,		/* the payload stops before its end */
};

/*
 * Aligned to 8 bytes. Behind it, without gaps: 16 bytes for each activity id that `flags` tells, 8
 * for each frame of a stack, and the payload, laid out as <ringpipe/types.h> says of enum rp_type.
 * The next event begins at the next multiple of 8.
 */
struct rp_batch_event {
	uint32_t bytes;			/* of all that, to the end of the payload */
	uint32_t event;			/* its definition's number in this session, from 0 */
	uint64_t time_ns;		/* CLOCK_MONOTONIC */
	uint32_t thread;
	uint16_t processor;
	uint8_t flags;			/* enum rp_batch_flags */
	uint8_t frames;
};

#endif
