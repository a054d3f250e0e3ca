/* SPDX-License-Identifier: MIT */
/* What the sections for words in registers, words_x86_64.c and turns_x86_64.c, refer to. */
#ifndef RP_CORE_WORDS_H
#define RP_CORE_WORDS_H

#include "base/thread.h"
#include "core/activity.h"
#include "core/core.h"
#include "core/own.h"
#include "core/probe.h"
#include "ring/rseq.h"
#include "ring/section.h"
#include "ring/slot.h"

_Static_assert(RP_RECORD_HEAD == 24, "as the places of words, 24 to 48, and the length have it");

/* `whole` is the room that is asked for, whatever of it the event takes. */
#define WORDS_OPERANDS \
	[unusual] "m"(rp_unusual_slots), [slots] "m"(rp_slots), \
	[slot_bytes] "i"(sizeof(struct rp_slot)), [area] "m"(rp_rseq_offset), \
	[index] "m"(rp_rseq_index_offset), [thread] "m"(rp_thread_id_offset), \
	[slowly] "i"(rp_event_write_slowly), [whole] "i"(RP_RECORD_HEAD + 32), \
	OFFSET(any, rp_activity_slots, any), OFFSET(e_enable, rp_event, enable), \
	OFFSET(e_index, rp_event, index), OFFSET(area_cs, rp_rseq_area, rseq_cs), \
	OFFSET(area_cpu, rp_rseq_area, cpu_id), OFFSET(s_rings, rp_slot, rings), \
	OFFSET(s_count, rp_slot, ring_count), OFFSET(s_clock, rp_slot, clock), \
	OFFSET(r_head, rp_ring, head), OFFSET(r_tail, rp_ring, tail), \
	OFFSET(r_size, rp_ring, size), OFFSET(r_data, rp_ring, data), \
	OFFSET(r_watermark, rp_ring, watermark)

#endif
