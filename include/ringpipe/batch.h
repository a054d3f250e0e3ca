/* SPDX-License-Identifier: MIT */
/*
 * Layout of the events that BPF programs read at libringpipe's probe `ringpipe:batch`. The probe
 * fires once for a batch, which contains up to thousands of events. Its arguments are a pointer to
 * the events, their size in bytes, their number, and the id of the session. Each event is a
 * struct rp_batch_event, and the events are in order of time.
 *
 * The probe fires while a batch session runs. A client of the diagnostics socket, such as
 * `ringpipe bpf`, starts that session. This header also compiles for BPF.
 */
#ifndef RINGPIPE_BATCH_H
#define RINGPIPE_BATCH_H

#include <stdint.h>

/* The largest batch, in bytes. The payload of a larger event is cut. */
#define RP_BATCH_BYTES_MAX 65536u

enum rp_batch_flags {
	RP_BATCH_ACTIVITY = 1,		/* the event has an activity id */
	RP_BATCH_RELATED = 2,		/* the event has a related activity id */
	RP_BATCH_CUT = 4,		/* the end of the payload is missing */
};

/*
 * The struct is aligned to 8 bytes. These parts follow it without gaps:
 * - 16 bytes for each activity id in `flags`;
 * - 8 bytes for each stack frame;
 * - the payload, in the layout that <ringpipe/types.h> describes at enum rp_type.
 * The next event begins at the next multiple of 8.
 */
struct rp_batch_event {
	uint32_t bytes;			/* from this struct to the end of the payload */
	uint32_t event;			/* index of its definition in this session, from 0 */
	uint64_t time_ns;		/* CLOCK_MONOTONIC */
	uint32_t thread;
	uint16_t processor;
	uint8_t flags;			/* enum rp_batch_flags */
	uint8_t frames;
};

#endif
