/* SPDX-License-Identifier: MIT */
/* Detect whether rseq is usable, and create the slot table. */
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "ring/regs.h"
#include "ring/rseq.h"
#include "ring/slot.h"

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

#define MM_CID_OFFSET 24u
#define CPU_ID_OFFSET 4u
#define PROCESSORS_MAX 8192u	/* limit of x86-64 kernels */

__thread struct rp_thread_ring rp_thread_ring = { .bit = RP_NO_BIT };
struct rp_slot *rp_slots;
uint64_t rp_regs_slow_mask = UINT64_MAX;
bool rp_rseq_usable;
uint64_t rp_rseq_index_offset;
ptrdiff_t rp_rseq_offset;

static bool heavy_is_membarrier;
static uint32_t ring_count;

static int membarrier(int command)
{
	return (int)syscall(__NR_membarrier, command, 0, 0);
}

static uint32_t cpu_count(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	return cpus > 0 ? (uint32_t)cpus : 1;
}

/*
 * Run on one processor after the other. This preempts any thread of the process that runs there,
 * and the kernel aborts the section of such a thread.
 */
static void visit_processors(void)
{
	unsigned long before[PROCESSORS_MAX / 64], one[PROCESSORS_MAX / 64] = { 0 };
	uint32_t count = cpu_count();

	if (sched_getaffinity(0, sizeof(before), (cpu_set_t *)(void *)before) != 0)
		return;
	for (uint32_t cpu = 0; cpu < count && cpu < PROCESSORS_MAX; cpu++) {
		one[cpu / 64] = 1ul << cpu % 64;
		(void)sched_setaffinity(0, sizeof(one), (cpu_set_t *)(void *)one);
		one[cpu / 64] = 0;
	}
	(void)sched_setaffinity(0, sizeof(before), (cpu_set_t *)(void *)before);
}

void rp_fence_heavy(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/*
	 * After registration, membarrier fails only if the program has forbidden itself the call.
	 */
	if (heavy_is_membarrier && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) != 0)
		visit_processors();
}

uint32_t rp_slot_ring_count(void)
{
	return ring_count;
}

#ifdef RP_HAVE_RSEQ
static bool rseq_registered(void)
{
	/*
	 * glibc 2.35 and later. __rseq_size is 0 if a tunable disabled rseq or the kernel rejected
	 * it.
	 */
	return &__rseq_size && &__rseq_offset && __rseq_size > 0 &&
	       (int32_t)rp_rseq_area()->cpu_id >= 0;
}

static void choose_index(void)
{
	/*
	 * glibc 2.36 sets __rseq_size to 20 but registers 32 bytes; the kernel reports how many
	 * bytes it writes. mm_cid is dense: it is below min(threads, CPUs). Kernels before 6.3
	 * provide only cpu_id.
	 */
	rp_rseq_index_offset = getauxval(AT_RSEQ_FEATURE_SIZE) >= MM_CID_OFFSET + 4 ?
			       MM_CID_OFFSET : CPU_ID_OFFSET;
}
#endif

_Static_assert(offsetof(struct rp_thread_ring, ring) -
	       offsetof(struct rp_thread_ring, generation) ==
	       offsetof(struct rp_rseq_area, rseq_cs), "a pointer to a section fits there");

int rp_slots_init(void)
{
	void *memory;
	int ret = rp_memory_map_wiped(RP_SLOTS_GENERATION_AT + sizeof(uint64_t), &memory);

	if (ret != 0)
		return ret;
	rp_slots = memory;
	/*
	 * Without a kernel area, sections still store rseq_cs before any test. They store it into
	 * the ring cache, which such a thread never fills.
	 */
	rp_rseq_offset = (char *)&rp_thread_ring.generation - (char *)__builtin_thread_pointer();
	ring_count = 0;
	rp_rseq_usable = false;
	rp_rseq_index_offset = 0;
#ifdef RP_HAVE_RSEQ
	if (!rseq_registered())
		return 0;
	choose_index();
	rp_rseq_offset = __rseq_offset;
	/* The section must read the clock itself: its abort does not cover a call to the vDSO. */
	if (!rp_clock_is_tsc)
		return 0;
	if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) != 0 ||
	    membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) != 0)
		return 0;
	heavy_is_membarrier = true;
	ring_count = cpu_count();
	rp_rseq_usable = true;
#endif
	return 0;
}
