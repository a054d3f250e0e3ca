/* SPDX-License-Identifier: MIT */
/*
 * Events for BPF programs at libringpipe's probe `ringpipe:batch`, which fires once for up to
 * thousands of events. Its arguments are a pointer to the events, their bytes, their number, and
 * the session's id. Each event is a struct rp_batch_event; they follow each other in order of time.
 *
 * The probe fires while a batch session runs. A client of the diagnostics socket, such as
 * `ringpipe bpf`, starts that session. This header also compiles for BPF.
 */
#ifndef RINGPIPE_BATCH_H
#define RINGPIPE_BATCH_H

#include <stdint.h>

/* The largest batch, in bytes. A larger event is cut. */
#define RP_BATCH_BYTES_MAX 65536u

enum rp_batch_flags {
	RP_BATCH_ACTIVITY = 1,		/* it has an activity id */
	RP_BATCH_RELATED = 2,		/* and a related activity's */
	RP_BATCH_CUT = 4,		/* the payload stops before its end */
};

/*
 * Aligned to 8 bytes, and followed, without gaps, by 16 bytes for each activity id in `flags`, 8
 * bytes for each stack frame, and the payload, laid out as <ringpipe/types.h> describes at enum
 * rp_type. The next event begins at the next multiple of 8.
 */
struct rp_batch_event {
	uint32_t bytes;			/* up to the end of the payload */
	uint32_t event;			/* its definition's number in this session, from 0 */
	uint64_t time_ns;		/* CLOCK_MONOTONIC */
	uint32_t thread;
	uint16_t processor;
	uint8_t flags;			/* enum rp_batch_flags */
	uint8_t frames;
};

#endif
