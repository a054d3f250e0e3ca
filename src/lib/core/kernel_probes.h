/* SPDX-License-Identifier: MIT */
/*
 * Tracers whose probes the kernel counts: for a declared event, in the upper 16 bits of its enable
 * word; for dynamic events, which no ELF file describes, in one probe for all, `ringpipe:event`.
 */
#ifndef RP_CORE_KERNEL_PROBES_H
#define RP_CORE_KERNEL_PROBES_H

#include <stdint.h>

#include <ringpipe/event.h>

/*
 * Slots that each writer looks at in any case, since their events take another way: of sessions
 * that want stacks, or belong to push listeners; of exporters. Above them is RP_SECRET_BIT, and
 * there the kernel counts the tracers of `ringpipe:event`: no writer pays for a second look.
 */
extern uint64_t rp_slow_path_mask __attribute__((visibility("hidden")));

/*
 * Sets rp_unusual_slots (ring/regs.h) to the same and all bits that are no session's, with the
 * core's lock held.
 */
void rp_slow_path_changed(void);

/* How many tracers the kernel counts for an event. */
uint32_t rp_event_tracers(const struct rp_event *event);

/*
 * Fires `ringpipe:event` for a dynamic event, and nothing for a declared one. The arguments are the
 * names of provider and event, the payload, the number of bytes passed, and the payload's size. A
 * payload in parts is gathered, up to RP_PROBE_GATHERED_MAX bytes.
 *
 * Context: any, signal handlers included.
 */
#define RP_PROBE_GATHERED_MAX 4096u
void rp_probe_fire(const struct rp_event *event, const struct rp_part *parts,
		   unsigned int part_count);

#endif
