/* SPDX-License-Identifier: MIT */
/*
 * Tracers that the kernel counts: in the upper 16 bits of an enable word, where a declared event
 * has its probe; and for events made at run time, which no ELF file can tell of, at one probe,
 * `ringpipe:event`, for all of them.
 */
#ifndef RP_CORE_PROBE_H
#define RP_CORE_PROBE_H

#include <stdint.h>

#include <ringpipe/event.h>

/*
 * Slots that each writer looks at in any case, since their events take another way: of sessions
 * that want stacks, or belong to push listeners; of exporters. Above them is RP_SECRET_BIT, and
 * there the kernel counts the tracers of `ringpipe:event`: no writer pays for a second look.
 */
extern uint64_t rp_special_slots __attribute__((visibility("hidden")));

/*
 * The same and all bits that are no session's, for rp_event_write_words(); all ones where there is
 * no such way. Follows rp_special_slots by rp_special_changed(), with the core's lock held.
 */
extern uint64_t rp_unusual_slots __attribute__((visibility("hidden")));

void rp_special_changed(void);

/* How many tracers the kernel counts for an event. */
uint32_t rp_event_tracers(const struct rp_event *event);

/*
 * Fires `ringpipe:event` for an event made at run time; nothing for a declared one. Its arguments:
 * names of provider and event, the payload, how many bytes of it are there, and how many it has:
 * what comes in parts is gathered, up to RP_PROBE_GATHERED_MAX.
 *
 * Context: any, signal handlers included.
 */
#define RP_PROBE_GATHERED_MAX 4096u
void rp_probe_fire(const struct rp_event *event, const struct rp_part *parts,
		   unsigned int part_count);

#endif
