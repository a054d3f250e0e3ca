/* SPDX-License-Identifier: MIT */
/* The rseq area of the calling thread, which glibc registers. */
#ifndef RP_RING_RSEQ_H
#define RP_RING_RSEQ_H

#include <stddef.h>
#include <stdint.h>

/* The kernel's layout (include/uapi/linux/rseq.h). */
struct rp_rseq_area {
	uint32_t cpu_id_start;
	uint32_t cpu_id;	/* negative: not registered */
	uint64_t rseq_cs;
	uint32_t flags;
	uint32_t node_id;
	uint32_t mm_cid;
};

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/*
 * Offset in the area of the number that selects the ring (mm_cid or cpu_id). 0: threads have no
 * area.
 */
extern uint64_t rp_rseq_index_offset __attribute__((visibility("hidden")));

/*
 * A copy of __rseq_offset that one load can read; set by rp_slots_init(). If threads have no area,
 * it is the offset of a place in struct rp_thread_ring, which is unused in that case.
 */
extern ptrdiff_t rp_rseq_offset __attribute__((visibility("hidden")));

static inline struct rp_rseq_area *rp_rseq_area(void)
{
	return (struct rp_rseq_area *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* Clear rseq_cs, because a static copy of this library may be unloaded. */
static inline void rp_rseq_leave(void)
{
	*(volatile uint64_t *)&rp_rseq_area()->rseq_cs = 0;
}

#endif
