/* SPDX-License-Identifier: MIT */
/*
 * Process information in a nettrace stream: the command line and, in a session with stacks, the
 * mappings and the symbols of the addresses in stacks. The functions run on the drain thread.
 */
#ifndef RP_SINK_EMIT_H
#define RP_SINK_EMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "host/rundown.h"
#include "nettrace/encoder.h"

enum rp_emit_stage {
	RP_EMIT_PROCESS,
	RP_EMIT_WAIT,		/* until the symbols are looked up */
	RP_EMIT_RECORDS,
	RP_EMIT_RESULT,
	RP_EMIT_DONE,
};

struct rp_emit {
	struct rp_encoder *encoder;
	struct rp_rundown *rundown;	/* NULL: not requested */
	bool looked;			/* in this pass, for new mappings */
	bool has_stacks;
	enum rp_emit_stage stage;
	struct rp_encoder_event_type *types[RP_RUNDOWN_METADATA + 1];
};

/* Return: 0 or -ENOMEM. */
int rp_emit_init(struct rp_emit *emit, struct rp_encoder *encoder, bool rundown);
void rp_emit_fini(struct rp_emit *emit);

/*
 * Put new mappings before an event with a stack. Return: 0; -EAGAIN: too much output waits;
 * -ENOMEM.
 */
int rp_emit_mappings(struct rp_emit *emit, uint64_t time_ns);

/* End a pass: the next pass looks for new mappings again. */
void rp_emit_rest(struct rp_emit *emit);

/*
 * Put everything that follows the last event. Return: 0: all is put; -EAGAIN: call again; -ENOMEM.
 */
int rp_emit_end(struct rp_emit *emit, uint64_t time_ns);

#endif
