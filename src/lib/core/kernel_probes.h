/* SPDX-License-Identifier: MIT */
/*
 * Probes whose tracers the kernel counts. For a declared event, it counts in the upper 16 bits of
 * the enable word. Dynamic events have no ELF file that describes them, so one probe,
 * `ringpipe:event`, serves all of them.
 */
#ifndef RP_CORE_KERNEL_PROBES_H
#define RP_CORE_KERNEL_PROBES_H

#include <stdint.h>

#include <ringpipe/event.h>

/*
 * Slots whose events need the slow path: those of sessions with stacks, of push listeners, and of
 * exporters. Every writer reads this mask anyway, so it also contains two other things:
 * RP_SECRET_BIT, and above it the kernel's count of the tracers of `ringpipe:event`.
 */
extern uint64_t rp_slow_path_mask __attribute__((visibility("hidden")));

/*
 * Update rp_regs_slow_mask (ring/regs.h): this mask, and all bits that belong to no session. The
 * caller holds the core's lock.
 */
void rp_slow_path_changed(void);

/* Return the number of tracers that the kernel counts for an event. */
uint32_t rp_event_tracers(const struct rp_event *event);

/*
 * Fire `ringpipe:event` for a dynamic event; do nothing for a declared one. The arguments of the
 * probe are the names of provider and event, the payload, the number of bytes passed, and the
 * payload's size. A payload in several parts is copied into one buffer, up to RP_PROBE_GATHERED_MAX
 * bytes.
 *
 * Context: any, signal handlers included.
 */
#define RP_PROBE_GATHERED_MAX 4096u
void rp_probe_fire(const struct rp_event *event, const struct rp_part *parts,
		   unsigned int part_count);

#endif
