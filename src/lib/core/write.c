/* SPDX-License-Identifier: MIT */
/*
 * The write path: from the enable word to the rings of every session that wants the event.
 *
 * The write path is async-signal-safe:
 *  - It takes no lock that a signal handler could find held. If the interrupted thread holds the
 *    lock of a fallback ring, the handler uses another ring.
 *  - It does not allocate memory.
 *  - Its only system calls are the futex wake-up and the wait for space. It waits only for sessions
 *    that request it, after all other sessions have the event.
 */
#include <errno.h>
#include <string.h>

#include <ringpipe/event.h>

#include "base/atomic.h"
#include "base/host_table.h"
#include "base/thread.h"
#include "core/activity_slots.h"
#include "core/core.h"
#include "core/def_table.h"
#include "core/drain_wake.h"
#include "core/enable.h"
#include "core/exporter_set.h"
#include "core/kernel_probes.h"
#include "core/own.h"
#include "core/secret.h"
#include "core/sites.h"
#include "core/wait.h"
#include "ring/regs.h"
#include "ring/ring.h"
#include "ring/rseq.h"
#include "ring/slot.h"
#include "unwind/host_frames.h"
#include "unwind/unwind.h"

/*
 * A longer copy would be aborted repeatedly by the membarriers with which the drain thread reads
 * rings. It does not read those of an overwriting session.
 */
#define RSEQ_PAYLOAD_MAX 4096u
#define ABORTS_MAX 7	/* attempts in write_slot() */

__thread bool rp_thread_listens __attribute__((tls_model("initial-exec")));

/* The ids that the thread has, and then the frames. */
struct prefix {
	uint64_t content[sizeof(struct rp_activity) / sizeof(uint64_t) + RP_STACK_MAX];
};

/* Store the ids of the prefix; ids that are zero are left out. Return: their size in bytes. */
static uint64_t copy_ids(struct rp_write *write, struct rp_guid ids[2])
{
	static const struct rp_guid none;
	struct rp_activity activity;
	uint64_t bytes = 0;

	rp_activity_read(&activity);
	if (memcmp(&activity.id, &none, sizeof(none)) != 0) {
		write->thread_flags |= (uint64_t)RP_RECORD_ACTIVITY << 48;
		memcpy(&ids[0], &activity.id, sizeof(none));
		bytes = sizeof(none);
	}
	if (memcmp(&activity.related, &none, sizeof(none)) != 0) {
		write->thread_flags |= (uint64_t)RP_RECORD_RELATED << 48;
		memcpy((char *)ids + bytes, &activity.related, sizeof(none));
		bytes += sizeof(none);
	}
	return bytes;
}

static void set_length(struct rp_write *write, uint32_t event, uint64_t payload_bytes)
{
	uint32_t length = (uint32_t)(RP_RECORD_HEADER + write->prefix_bytes + payload_bytes);

	write->length_event = length | (uint64_t)event << 32;
	write->step = rp_record_step(length);
}

/*
 * Whether a restartable section writes the record. An overwriting session has few fallback locks. A
 * thread that leaves a write under a lock and then makes no call keeps that lock; if it leaves a
 * section, nothing remains.
 */
static inline bool is_for_section(const struct rp_write *write, uint64_t payload_bytes)
{
	return payload_bytes <= RSEQ_PAYLOAD_MAX ||
	       write->step <= rp_load_relaxed(&write->slot->section_step);
}

static enum rp_write_result write_slot(struct rp_write *write, uint64_t payload_bytes)
{
	enum rp_write_result result = RP_WRITE_NO_RING;
	uint64_t cid;

	if (payload_bytes > RP_PAYLOAD_MAX)
		return rp_slot_refuse(write);
	if (rp_rseq_usable && is_for_section(write, payload_bytes)) {
		for (int i = 0; i < ABORTS_MAX; i++) {
			result = rp_slot_write_rseq(write);
			if (result != RP_WRITE_ABORTED)
				break;
		}
		if (result == RP_WRITE_NO_RING) {
			/* A hint: the drain thread creates the missing ring. */
			cid = *(uint32_t *)((char *)rp_rseq_area() + rp_rseq_index_offset);
			if (rp_load_relaxed(&write->slot->wanted) <= cid) {
				rp_store_relaxed(&write->slot->wanted, cid + 1);
				write->above = 1;
			}
		}
		if (result != RP_WRITE_NO_RING && result != RP_WRITE_ABORTED)
			return result;
	}
	return rp_slot_write_fallback(write);
}

/*
 * Take the stack by frame pointers alone. It ends at a function without one. `missing`: some unwind
 * rules were not cached. The frame pointer of the library's own function is certain, but that of
 * its caller may be anything, so the stack then ends at the caller.
 */
static __attribute__((noinline, cold)) unsigned int
take_by_frame_pointers(const void *frame, uint64_t *ret_frames, bool missing)
{
	unsigned int count = rp_thread_stack(frame, ret_frames, missing ? 1 : RP_STACK_MAX);

	if (missing && count > 0)
		ret_frames[count++] = RP_FRAME_CUT;
	return count;
}

/* Take the stack by the unwind rules that are cached, with the frames of the host's functions. */
static unsigned int take_stack(const void *frame, uint64_t *ret_frames)
{
	int count = rp_unwind_callers(frame, ret_frames, RP_STACK_MAX);
	struct rp_native_stack stack = { .frames = ret_frames };

	stack.count = count > 0 ? (unsigned int)count :
		      take_by_frame_pointers(frame, ret_frames, count < 0);
	if (__builtin_expect(rp_host_get() != NULL, 0))
		(void)rp_host_frames_add(RP_HOST_WALK_EVENT, NULL, &stack);
	return stack.count;
}

static enum rp_write_result
write_with_stack(struct rp_write *write, uint64_t payload_bytes, const void *frame)
{
	struct prefix prefix;
	const void *ids = write->prefix;
	uint64_t id_bytes = write->prefix_bytes;
	enum rp_write_result result;
	unsigned int count;

	if (id_bytes)
		memcpy(&prefix, ids, id_bytes);
	count = take_stack(frame, &prefix.content[id_bytes / sizeof(uint64_t)]);
	write->thread_flags |= (uint64_t)count << 56;
	write->prefix = &prefix;
	write->prefix_bytes = id_bytes + count * sizeof(uint64_t);
	set_length(write, write->length_event >> 32, payload_bytes);
	result = write_slot(write, payload_bytes);
	write->thread_flags &= ~(0xffull << 56);
	write->prefix = ids;
	write->prefix_bytes = id_bytes;
	set_length(write, write->length_event >> 32, payload_bytes);
	return result;
}

/*
 * For sessions that want a stack with each event, and for push listeners. The events of a
 * listener's callback do not go to push listeners, which could otherwise keep each other busy for
 * ever. Out of line, so that the usual event does not reserve stack memory for the frames.
 */
static __attribute__((noinline)) enum rp_write_result
write_slow_path(struct rp_write *write, const struct rp_event *event, uint64_t payload_bytes,
		const void *frame)
{
	bool stack = (rp_load_relaxed(&rp_core.stack_slots) & write->bit) != 0;

	write->slot = &rp_slots[__builtin_ctzll(write->bit)];
	if (rp_thread_listens && (rp_load_relaxed(&rp_core.push_slots) & write->bit))
		return RP_WRITE_GONE;
	if (stack && !(event->flags & RP_EVENT_NO_STACK))
		return write_with_stack(write, payload_bytes, frame);
	return write_slot(write, payload_bytes);
}

/* Add up the sizes. The sum saturates above the limit, because the caller may pass any sizes. */
static inline uint64_t sum_sizes(const struct rp_part *parts, unsigned int part_count)
{
	uint64_t payload_bytes = 0;

	for (unsigned int i = 0; i < part_count; i++) {
		if (parts[i].size_bytes > RP_PAYLOAD_MAX)
			payload_bytes = RP_PAYLOAD_MAX + 1;
		else if (payload_bytes <= RP_PAYLOAD_MAX)
			payload_bytes += parts[i].size_bytes;
	}
	return payload_bytes;
}

static inline void init_write(struct rp_write *write, const struct rp_event *event,
			       const struct rp_part *parts, unsigned int part_count)
{
	write->enable = &event->enable;
	write->prefix = NULL;
	write->prefix_bytes = 0;
	write->parts = parts;
	write->part_count = part_count;
	write->above = 0;
	write->claimed = 0;
}

/*
 * Wake the drain thread if necessary, and return the first error, except that -EMSGSIZE replaces
 * -ENOBUFS.
 */
static inline int after_write(struct rp_write *write, enum rp_write_result result, int ret)
{
	if (__builtin_expect(write->above | write->claimed, 0)) {
		write->above = 0;
		write->claimed = 0;
		rp_drain_wake_if_asleep();
	}
	if (result == RP_WRITE_TOO_BIG)
		ret = -EMSGSIZE;
	else if (result == RP_WRITE_FULL || result == RP_WRITE_BUSY || result == RP_WRITE_BLOCKED)
		ret = ret ? ret : -ENOBUFS;
	return ret;
}

static inline enum rp_write_result
write_one(struct rp_write *write, const struct rp_event *event, uint64_t slow_mask,
	  uint64_t payload_bytes, const void *frame)
{
	if (__builtin_expect((slow_mask & write->bit) != 0, 0))
		return write_slow_path(write, event, payload_bytes, frame);
	write->slot = &rp_slots[__builtin_ctzll(write->bit)];
	return write_slot(write, payload_bytes);
}

/* `wait` must be in the real stack frame, not in AddressSanitizer's copy on the heap. */
static __attribute__((no_sanitize("address"))) enum rp_write_result
write_waiting(struct rp_write *write, const struct rp_event *event, uint64_t slow_mask,
		uint64_t payload_bytes, const void *frame)
{
	struct rp_slot *slot = &rp_slots[__builtin_ctzll(write->bit)];
	enum rp_write_result result = RP_WRITE_NO_SPACE;
	struct rp_wait wait;

	if (rp_wait_begin(&wait, slot)) {
		do {
			result = write_one(write, event, slow_mask, payload_bytes, frame);
		} while (result >= RP_WRITE_NO_SPACE && rp_wait_more(&wait, slot, result));
		rp_wait_end(&wait);
	}
	return result >= RP_WRITE_NO_SPACE ? rp_slot_give_up(write) : result;
}

/* Write to the slots that had no space and whose sessions make writers wait. */
static __attribute__((noinline)) int
write_later(struct rp_write *write, const struct rp_event *event, uint64_t slots,
	    uint64_t payload_bytes, const void *frame, int ret)
{
	uint64_t slow_mask = rp_load_relaxed(&rp_slow_path_mask);
	int saved = errno;

	for (; slots; slots &= slots - 1) {
		write->bit = slots & -slots;
		write->slot = &rp_slots[__builtin_ctzll(slots)];
		ret = after_write(write, write_waiting(write, event, slow_mask, payload_bytes,
							 frame), ret);
	}
	errno = saved;
	return ret;
}

/*
 * Write to each slot separately, for slots that need other than the usual path. The function has
 * few parameters, because each value that a caller keeps for this call costs every event.
 */
static inline __attribute__((always_inline)) int
write_each_slot(struct rp_write *write, uint64_t slots, const void *frame)
{
	const struct rp_event *event = (const struct rp_event *)(const void *)write->enable;
	uint64_t payload_bytes = sum_sizes(write->parts, (unsigned int)write->part_count);
	uint64_t slow_mask = rp_load_relaxed(&rp_slow_path_mask), later = 0;
	int ret = 0;

	for (; slots; slots &= slots - 1) {
		enum rp_write_result result;

		write->bit = slots & -slots;
		result = write_one(write, event, slow_mask, payload_bytes, frame);
		if (result >= RP_WRITE_NO_SPACE)
			later |= write->bit;
		ret = after_write(write, result, ret);
	}
	return later ? write_later(write, event, later, payload_bytes, frame, ret) : ret;
}

static __attribute__((noinline)) int
write_slots(struct rp_write *write, uint64_t slots, const void *frame)
{
	return write_each_slot(write, slots, frame);
}

static inline __attribute__((always_inline)) void
init_record(struct rp_write *write, const struct rp_event *event, const struct rp_part *parts,
	      unsigned int part_count, uint64_t payload_bytes, struct rp_guid ids[2])
{
	init_write(write, event, parts, part_count);
	write->thread_flags = rp_thread_id();
	if (__builtin_expect(rp_thread_ring.has_ids, 0)) {
		write->prefix = ids;
		write->prefix_bytes = copy_ids(write, ids);
	}
	set_length(write, event->index, payload_bytes);
}

static __attribute__((noinline)) int
write_sessions(struct rp_event *event, const struct rp_part *parts, unsigned int part_count,
	       uint64_t payload_bytes, uint64_t slots, const void *frame)
{
	struct rp_guid ids[2];
	struct rp_write write;

	init_record(&write, event, parts, part_count, payload_bytes, ids);
	return write_each_slot(&write, slots, frame);
}

/* Pass the event to exporters before a record is built, because they do not need one. */
static __attribute__((noinline)) int
write_exports(struct rp_event *event, const struct rp_part *parts, unsigned int part_count,
	      uint64_t payload_bytes, uint64_t slots, const void *frame)
{
	for (uint64_t left = slots & RP_EXPORTER_BITS; left; left &= left - 1)
		rp_export_write(event, left & -left, parts, part_count, payload_bytes);
	slots &= RP_SESSION_BITS;
	return slots ? write_sessions(event, parts, part_count, payload_bytes, slots, frame) : 0;
}

/*
 * Use one clock reading for as many sessions as possible. Sessions whose section returned another
 * result are retried on the slow path after all others.
 */
static __attribute__((noinline)) int
write_multi(struct rp_write *write, uint64_t slots, const void *frame)
{
	uint64_t others = 0;

	write->ticks = 0;
	for (; slots; slots &= slots - 1) {
		write->bit = slots & -slots;
		write->slot = &rp_slots[(unsigned int)__builtin_ctzll(slots)];
		if (__builtin_expect(rp_slot_try_rseq_multi(write) != RP_WRITE_OK, 0)) {
			others |= write->bit;
			write->ticks = 0;
		}
		if (__builtin_expect(write->above, 0)) {
			write->above = 0;
			write->ticks = 0;	/* the wake-up may make a system call */
			rp_drain_wake_if_asleep();
		}
	}
	rp_rseq_leave();
	return others ? write_slots(write, others, frame) : 0;
}

/* Return: whether one of the slots needs more than a record without a stack. */
static inline bool needs_slow_path(const struct rp_event *event, uint64_t slots)
{
	return !(event->flags & RP_EVENT_NO_STACK) ||
	       (slots & (RP_EXPORTER_BITS | rp_load_relaxed(&rp_core.push_slots))) != 0;
}

/*
 * A stack of the event begins with the caller of `frame`. NULL: the caller of the function into
 * which this one is inlined.
 */
static inline __attribute__((always_inline)) int
write_some(struct rp_event *event, const struct rp_part *parts, unsigned int part_count,
	   uint64_t slots, uint64_t slow_mask, const void *frame)
{
	uint64_t payload_bytes;
	struct rp_guid ids[2];
	struct rp_write write;

	if (!slots)
		return 0;
	payload_bytes = part_count == 1 ? parts[0].size_bytes : sum_sizes(parts, part_count);
	if (__builtin_expect((slots & slow_mask) != 0, 0) && needs_slow_path(event, slots)) {
		if (!frame)
			frame = __builtin_frame_address(0);
		return slots & RP_EXPORTER_BITS ?
		       write_exports(event, parts, part_count, payload_bytes, slots, frame) :
		       write_sessions(event, parts, part_count, payload_bytes, slots, frame);
	}
	init_record(&write, event, parts, part_count, payload_bytes, ids);
	if (__builtin_expect(!rp_rseq_usable || payload_bytes > RSEQ_PAYLOAD_MAX, 0))
		return write_slots(&write, slots, frame ? frame : __builtin_frame_address(0));
	if (slots & (slots - 1))
		return write_multi(&write, slots, frame ? frame : __builtin_frame_address(0));
	write.bit = slots;
	write.slot = &rp_slots[(unsigned int)__builtin_ctzll(slots)];
	if (__builtin_expect(rp_slot_try_rseq(&write) != RP_WRITE_OK, 0))
		return write_slots(&write, slots, frame ? frame : __builtin_frame_address(0));
	if (__builtin_expect(write.above, 0))
		rp_drain_wake_if_asleep();
	return 0;
}

static inline __attribute__((always_inline)) int
write_all(struct rp_event *event, const struct rp_part *parts, unsigned int part_count,
	  uint64_t slow_mask, const void *frame)
{
	return write_some(event, parts, part_count,
			  rp_load_relaxed(&event->enable) & (RP_SECRET_BIT - 1), slow_mask, frame);
}

/* For tracers of `ringpipe:event`, and for dynamic events with secret fields. */
static __attribute__((noinline, cold)) int
write_watched(struct rp_event *event, const struct rp_part *parts, unsigned int part_count,
	      uint64_t slow_mask, const void *frame)
{
	static const struct rp_part too_big = { NULL, RP_PAYLOAD_MAX + 1 };
	struct rp_part others[RP_SECRET_PARTS];

	if (event->flags & RP_EVENT_SECRETS) {
		const struct rp_site *site = event->core;
		int count = rp_secret_replace(&site->def->public, parts, part_count, others);

		if (count < 0)
			return write_all(event, &too_big, 1, slow_mask, frame);
		parts = others;
		part_count = (unsigned int)count;
	}
	if (slow_mask > RP_OWN_BITS)
		rp_probe_fire(event, parts, part_count);
	return write_all(event, parts, part_count, slow_mask, frame);
}

RP_PUBLIC int rp_event_write(struct rp_event *event, const struct rp_part *parts,
			     unsigned int part_count)
{
	uint64_t slow_mask = rp_load_relaxed(&rp_slow_path_mask);

	if (__builtin_expect(slow_mask > RP_SECRET_BIT - 1, 0))
		return write_watched(event, parts, part_count, slow_mask,
				     __builtin_frame_address(0));
	return write_all(event, parts, part_count, slow_mask, NULL);
}

/* Inlined into the called function, so a stack begins with that function's caller. */
static inline __attribute__((always_inline)) int
write_regs(const uint64_t regs[4], size_t bytes, struct rp_event *event)
{
	const struct rp_part part = { regs, bytes };

	return write_all(event, &part, bytes != 0, rp_load_relaxed(&rp_slow_path_mask), NULL);
}

#if defined(RP_HAVE_RSEQ) && defined(__x86_64__)
int rp_event_write_slow(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct rp_event *event,
			size_t bytes)
{
	return write_regs((const uint64_t[]){ a, b, c, d }, bytes, event);
}

int rp_event_write_multi_slow(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
			      struct rp_event *event, uint64_t slots_bytes)
{
	const uint64_t regs[] = { a, b, c, d };
	const struct rp_part part = { regs, slots_bytes >> RP_MULTI_SLOW_BYTES_AT };

	return write_some(event, &part, part.size_bytes != 0,
			  slots_bytes & rp_load_relaxed(&event->enable) & RP_SESSION_BITS,
			  rp_load_relaxed(&rp_slow_path_mask), NULL);
}
#else
RP_PUBLIC int rp_event_write_regs(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				  struct rp_event *event, size_t bytes)
{
	return write_regs((const uint64_t[]){ a, b, c, d }, bytes, event);
}
#endif

int rp_event_write_for(struct rp_event *event, const struct rp_part *parts,
		       unsigned int part_count, const struct rp_origin *origin)
{
	uint64_t slots = rp_load_relaxed(&event->enable) & RP_SESSION_BITS;
	uint64_t payload_bytes = sum_sizes(parts, part_count);
	struct rp_write write;
	int ret = 0;

	init_write(&write, event, parts, part_count);
	write.thread_flags = origin->thread | (uint64_t)origin->frame_count << 56;
	write.prefix = origin->frames;
	write.prefix_bytes = origin->frame_count * sizeof(uint64_t);
	set_length(&write, event->index, payload_bytes);
	for (; slots; slots &= slots - 1) {
		unsigned int slot = (unsigned int)__builtin_ctzll(slots);
		enum rp_write_result result;

		write.bit = 1ull << slot;
		write.slot = &rp_slots[slot];
		result = write_slot(&write, payload_bytes);
		/* The caller writes for another thread and must not wait for space. */
		if (result >= RP_WRITE_NO_SPACE)
			result = rp_slot_give_up(&write);
		ret = after_write(&write, result, ret);
	}
	return ret;
}
