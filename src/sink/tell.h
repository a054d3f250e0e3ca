/* SPDX-License-Identifier: MIT */
/*
 * What a nettrace stream tells of the process besides its events: how it was started, and, where
 * there are stacks, what they went through. On the drain thread.
 */
#ifndef RP_SINK_TELL_H
#define RP_SINK_TELL_H

#include <stdbool.h>
#include <stdint.h>

#include "host/rundown.h"
#include "nettrace/encoder.h"

enum rp_tell_stage {
	RP_TELL_PROCESS,
	RP_TELL_WAIT,		/* for symbols */
	RP_TELL_RECORDS,
	RP_TELL_RESULT,
	RP_TELL_DONE,
};

struct rp_tell {
	struct rp_encoder *encoder;
	struct rp_rundown *rundown;	/* NULL: nobody asked for it */
	bool looked;			/* in this pass */
	bool has_stacks;
	enum rp_tell_stage stage;
	struct rp_encoder_event_type *types[RP_RUNDOWN_METADATA + 1];
};

/* 0 or -ENOMEM. */
int rp_tell_init(struct rp_tell *tell, struct rp_encoder *encoder, bool rundown);
void rp_tell_fini(struct rp_tell *tell);

/* What is loaded, before an event with a stack. 0; -EAGAIN: enough waits; -ENOMEM. */
int rp_tell_mappings(struct rp_tell *tell, uint64_t time_ns);

/* The pass is over: what was loaded until the next one is looked for again. */
void rp_tell_rest(struct rp_tell *tell);

/* After the last event. 0: all is told; -EAGAIN: call again; -ENOMEM. */
int rp_tell_end(struct rp_tell *tell, uint64_t time_ns);

#endif
