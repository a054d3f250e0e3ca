/* SPDX-License-Identifier: MIT */
/* The state of the trace of the machine, for the files that write its events. */
#ifndef RP_RECORD_MACHINE_TRACE_PARTS_H
#define RP_RECORD_MACHINE_TRACE_PARTS_H

#include <limits.h>

#include "nettrace/encoder.h"
#include "tools/ringpipe-record/machine_trace.h"
#include "tools/trace/machine_events.h"

#define PAYLOAD_BYTES (2u * PATH_MAX + 2048u)

struct rp_record_trace {
	struct rp_encoder *encoder;
	struct rp_encoder_event_type *types[RP_MACHINE_EVENT_COUNT];
	struct rp_output *output;
	struct rp_record_hit *hits;
	size_t hit_count, hit_capacity;
	uint64_t last_ns;
	struct rp_guid activity, related;	/* of the event that is being put */
	uint32_t next_id;		/* of a mapping or function */
	struct rp_record_trace_stats stats;
	size_t used;			/* of `payload` */
	uint8_t payload[PAYLOAD_BYTES];
};

/* Add to the payload of the next event. A text gets its terminating zero. */
void rp_record_put_bytes(struct rp_record_trace *trace, const void *bytes, size_t size);
void rp_record_put_string(struct rp_record_trace *trace, const char *text);

/* Put the payload as an event of the process, or of one of its threads. 0; -ENOMEM. */
int rp_record_put(struct rp_record_trace *trace, enum rp_machine_event kind,
		  const struct rp_machine_process *process,
		  const struct rp_record_trace_place *place, const uint64_t *frames,
		  uint32_t frame_count);

#endif
