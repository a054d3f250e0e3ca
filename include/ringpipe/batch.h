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
	RP_BATCH_ACTIVITY = 1,		/* 16 bytes of an activity id follow the payload */
	RP_BATCH_RELATED = 2,		/* and 16 of the related activity's */
	RP_BATCH_CUT = 4,		/* the payload stops before its end */
};

/*
 * Aligned to 8 bytes. Behind it the payload, laid out as <ringpipe/types.h> says of enum rp_type;
 * padding to 8 bytes; then the activity ids that `flags` tells.
 */
struct rp_batch_event {
	uint32_t bytes;			/* of all that, up to the next event */
	uint32_t event;			/* its definition's number in this session, from 0 */
	uint64_t time_ns;		/* CLOCK_MONOTONIC */
	uint32_t thread;
	uint32_t processor;
	uint32_t payload_bytes;
	uint32_t flags;			/* enum rp_batch_flags */
};

#endif
