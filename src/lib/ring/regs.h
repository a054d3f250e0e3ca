/* SPDX-License-Identifier: MIT */
/*
 * Write payloads that are in registers, a to d: regs_x86_64.S for one session, multi_x86_64.S for
 * several. These functions are in a lower layer than core/, which sets rp_regs_slow_mask and
 * rp_thread_ring.has_ids, and defines the two functions that write all other events.
 */
#ifndef RP_RING_REGS_H
#define RP_RING_REGS_H

#include <stddef.h>
#include <stdint.h>

#include <ringpipe/event.h>

/*
 * Slots, and other bits of an enable word, that need the slow path. All bits are set where payloads
 * in registers always need it. core/kernel_probes.c sets this mask.
 */
extern uint64_t rp_regs_slow_mask __attribute__((visibility("hidden")));

/* As rp_event_write_regs(), if the thread's ring cache is not valid for the event. */
int rp_event_write_miss(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct rp_event *event,
			size_t bytes) __attribute__((visibility("hidden")));

/* As rp_event_write_regs(), for several sessions. */
int rp_event_write_multi(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct rp_event *event,
			 size_t bytes) __attribute__((visibility("hidden")));

/* As rp_event_write_regs(), for any event. Counts losses. core/write.c defines it. */
int rp_event_write_slow(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct rp_event *event,
			size_t bytes) __attribute__((visibility("hidden")));

/*
 * As rp_event_write_slow(), for some of the slots that want the event. The lower bits of
 * `slots_bytes` are these slots, and the bits from RP_MULTI_SLOW_BYTES_AT on are the payload's size
 * in bytes. core/write.c defines it.
 */
#define RP_MULTI_SLOW_BYTES_AT 48
int rp_event_write_multi_slow(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
			      struct rp_event *event,
			      uint64_t slots_bytes) __attribute__((visibility("hidden")));

#endif
