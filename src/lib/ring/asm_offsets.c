/* SPDX-License-Identifier: MIT */
/*
 * Offsets of struct members, and constants, for the assembly of this folder. The build compiles
 * this file with the flags of the library. asm_offsets.py then generates ring/asm_offsets.h from
 * the markers in the object file, as the Linux kernel's build does with its asm-offsets.c. The
 * object is not linked into anything.
 */
#include <stddef.h>

#include <ringpipe/event.h>

#include "base/clock.h"
#include "ring/regs.h"
#include "ring/ring.h"
#include "ring/rseq.h"
#include "ring/slot.h"

#define NUMBER(name, value) __asm__ volatile(".ascii \"->" #name " %c0<-\"" : : "i"(value))
#define MEMBER(name, type, member) NUMBER(name, offsetof(struct type, member))

static __attribute__((used)) void members(void)
{
	MEMBER(EVENT_ENABLE, rp_event, enable);
	MEMBER(EVENT_INDEX, rp_event, index);

	MEMBER(RSEQ_CPU_ID, rp_rseq_area, cpu_id);
	MEMBER(RSEQ_CS, rp_rseq_area, rseq_cs);

	MEMBER(RING_HEAD, rp_ring, head);
	MEMBER(RING_LOST_FULL, rp_ring, lost_full);
	MEMBER(RING_DATA, rp_ring, data);
	MEMBER(RING_SIZE, rp_ring, size);
	MEMBER(RING_WATERMARK, rp_ring, watermark);
	MEMBER(RING_SUBBUF, rp_ring, subbuf);
	MEMBER(RING_STAMP, rp_ring, stamp);
	MEMBER(RING_TAIL, rp_ring, tail);
	MEMBER(RING_ENDS, rp_ring, ends);

	MEMBER(RECORD_TICKS, rp_record, ticks);
	MEMBER(RECORD_THREAD, rp_record, thread);
	MEMBER(RECORD_PROCESSOR, rp_record, processor);

	MEMBER(SLOT_RINGS, rp_slot, rings);
	MEMBER(SLOT_RING_COUNT, rp_slot, ring_count);
	MEMBER(SLOT_CLOCK, rp_slot, clock);
	MEMBER(SLOT_POOL, rp_slot, pool);
	MEMBER(SLOT_OWNERS, rp_slot, owners);

	MEMBER(CACHE_STAMP, rp_thread_ring, stamp);
	MEMBER(CACHE_BIT, rp_thread_ring, bit);
	MEMBER(CACHE_GENERATION, rp_thread_ring, generation);
	MEMBER(CACHE_RING, rp_thread_ring, ring);
	MEMBER(CACHE_LIMIT, rp_thread_ring, limit);
	MEMBER(CACHE_BASE, rp_thread_ring, base);
	MEMBER(CACHE_CID, rp_thread_ring, cid);
	MEMBER(CACHE_CLOCK, rp_thread_ring, clock);
	MEMBER(CACHE_THREAD, rp_thread_ring, thread);
	MEMBER(CACHE_HAS_IDS, rp_thread_ring, has_ids);

	MEMBER(WRITE_ENABLE, rp_write, enable);
	MEMBER(WRITE_BIT, rp_write, bit);
	MEMBER(WRITE_SLOT, rp_write, slot);
	MEMBER(WRITE_STEP, rp_write, step);
	MEMBER(WRITE_LENGTH_EVENT, rp_write, length_event);
	MEMBER(WRITE_THREAD_FLAGS, rp_write, thread_flags);
	MEMBER(WRITE_PREFIX, rp_write, prefix);
	MEMBER(WRITE_PREFIX_BYTES, rp_write, prefix_bytes);
	MEMBER(WRITE_PARTS, rp_write, parts);
	MEMBER(WRITE_PART_COUNT, rp_write, part_count);
	MEMBER(WRITE_TICKS, rp_write, ticks);
	MEMBER(WRITE_ABOVE, rp_write, above);

	MEMBER(PART_BASE, rp_part, base);
	MEMBER(PART_SIZE_BYTES, rp_part, size_bytes);
}

static __attribute__((used)) void constants(void)
{
	NUMBER(RECORD_HEADER, RP_RECORD_HEADER);
	NUMBER(REGS_BYTES_MAX, 4 * sizeof(uint64_t));
	NUMBER(MULTI_SLOW_BYTES_AT, RP_MULTI_SLOW_BYTES_AT);
	NUMBER(RING_LAST_SUBBUF, RP_RING_SUBBUFS - 1);
	NUMBER(SLOT_BYTES, sizeof(struct rp_slot));
	NUMBER(SLOTS_GENERATION, RP_SLOTS_GENERATION_AT);
	NUMBER(PART_BYTES, sizeof(struct rp_part));

	NUMBER(CLOCK_TICKS, RP_SLOT_CLOCK_TICKS);
	NUMBER(CLOCK_CAUSAL, RP_SLOT_CLOCK_CAUSAL);
	NUMBER(CLOCK_COARSE, RP_SLOT_CLOCK_COARSE);
	NUMBER(CLOCK_STEP, RP_CLOCK_STEP);

	NUMBER(RESULT_GONE, RP_WRITE_GONE);
	NUMBER(RESULT_NO_RING, RP_WRITE_NO_RING);
	NUMBER(RESULT_FULL, RP_WRITE_FULL);
	NUMBER(RESULT_ABORTED, RP_WRITE_ABORTED);
}

_Static_assert(RP_SLOT_CLOCK_TICKS < RP_SLOT_CLOCK_CAUSAL &&
	       RP_SLOT_CLOCK_CAUSAL < RP_SLOT_CLOCK_COARSE, "regs_x86_64.S compares once for all");
/* tests/abi cannot compare these, because the debugging information of assembly has no types. */
_Static_assert(__builtin_types_compatible_p(__typeof__(rp_event_write_regs),
		int(uint64_t, uint64_t, uint64_t, uint64_t, struct rp_event *, size_t)),
	       "regs_x86_64.S has the arguments in registers");
_Static_assert(RP_SLOTS <= RP_MULTI_SLOW_BYTES_AT, "multi_x86_64.S puts bytes above the slots");
_Static_assert(RP_WRITE_OK == 0, "write_x86_64.S clears a register for it");
_Static_assert(offsetof(struct rp_record, length) == 0 && offsetof(struct rp_record, event) == 4,
	       "the first word of a record has both");
