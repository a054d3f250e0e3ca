/* SPDX-License-Identifier: MIT */
/* glibc's rseq area of the calling thread. */
#ifndef RP_RING_RSEQ_H
#define RP_RING_RSEQ_H

#include <stddef.h>
#include <stdint.h>

/* As the kernel lays it out (include/uapi/linux/rseq.h). */
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

/* Offset in the area of the number rings are indexed by; 0: threads have no area. */
extern uint64_t rp_rseq_index_offset __attribute__((visibility("hidden")));

/*
 * __rseq_offset, where one load finds it; set by rp_slots_init(). Where threads have no area, a
 * place in struct rp_thread_ring, which is not used there.
 */
extern ptrdiff_t rp_rseq_offset __attribute__((visibility("hidden")));

static inline struct rp_rseq_area *rp_rseq_area(void)
{
	return (struct rp_rseq_area *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* Points into no section any more: a static copy of this library may be unloaded. */
static inline void rp_rseq_leave(void)
{
	*(volatile uint64_t *)&rp_rseq_area()->rseq_cs = 0;
}

#endif
