/* SPDX-License-Identifier: MIT */
/*
 * The usual event: one session wants it, and its payload is some words in registers. The sections
 * do what the one of ring/write_x86_64.c does, which see for what they may and may not; that one
 * takes any payload, from a struct in memory, and storing and loading it costs as much as all that
 * is here.
 *
 * The first goes by what the thread found when it last looked (struct rp_thread_ring of
 * ring/slot.h), since four loads, each of which has to wait for the one before, cost twice what the
 * rest does:
 *
 *	write:
 *		if (*enable is not known.bit)			-> anew
 *		if (generation of all slots is not known.generation) -> anew	[SLOT-AGE]
 *		if (area->mm_cid is not known.cid)		-> anew
 *		ring = known.ring
 *		if (ring->head >= known.limit)
 *			known.base = ring->data - (ring->head & -ring->size)
 *			known.limit = ring->tail + ring->watermark - all the words + 1	[RING-ROOM]
 *			if (ring->head >= known.limit) -> …
 *		to = known.base + ring->head
 *		to->ticks = by the coarse clock, or rdtsc
 *		all the words, head
 *		ring->head += step			commit	[RING-PUB]
 *
 * The second looks, and keeps what it found:
 *
 *	if (*enable & unusual, or the thread has ids)	-> any other way
 *	if (*enable has two bits)			-> turns_x86_64.c
 *	write:
 *		if (!(*enable & bit) or bit & unusual)		-> …
 *		rings = slot->rings; if (!rings)		-> …
 *		if (area->cpu_id < 0)				-> …
 *		cid = area->mm_cid; if (cid >= slot->ring_count) -> …
 *		ring = rings[cid]; if (!ring)			-> …
 *		if (the thread has ids)				-> …
 *		known = all that
 *		from `if (ring->head …` on as above
 *
 * Both looks at what is unusual are needed: the bit may have become another session's since the
 * first, and a handler may have set ids.
 *
 * What goes another way (…), an abort too, has changed nothing that anyone sees. It is then
 * written by rp_event_write_slowly(), which tests all of it again, and counts what is lost.
 *
 * Naked, so that it is the same with each compiler, keeps to the registers that a caller expects to
 * lose, and leaves by jumps: a stack begins with the event's caller. A compiler's own code for it
 * saves five registers, a tenth of the whole.
 */
#include "core/words.h"

#if defined(RP_HAVE_RSEQ) && defined(__x86_64__)

#include "base/clock.h"

_Static_assert(RP_SLOT_CLOCK_TICKS < RP_SLOT_CLOCK_CAUSAL &&
	       RP_SLOT_CLOCK_CAUSAL < RP_SLOT_CLOCK_COARSE, "as the jumps have them");

#pragma GCC diagnostic ignored "-Wunused-parameter"

/*
 * From the look for room to the commit. r11 is the ring, r10 the thread's struct rp_thread_ring,
 * xmm1 the processor, xmm0 the third word; rax becomes the head, and r10 where the record goes to.
 */
#define SECTION_WRITE \
	"movq %c[r_head](%%r11), %%rax\n\t" \
	"cmpq %%fs:%c[t_limit](%%r10), %%rax\n\t" \
	"jae 37f\n" \
	"38:\n\t" \
	/* No processor's number takes more than 16 bits. */ \
	"movd %%fs:%c[t_thread](%%r10), %%xmm2\n\t" \
	"punpckldq %%xmm1, %%xmm2\n\t" \
	"cmpl %[causal], %%fs:%c[t_clock](%%r10)\n\t" \
	"ja 31f\n\t" \
	"jne 30f\n\t" \
	"lfence\n" \
	"30:\n\t" \
	"movq %%fs:%c[t_base](%%r10), %%r10\n\t" \
	"addq %%rax, %%r10\n\t" \
	"rdtsc\n\t" \
	"shlq $32, %%rdx\n\t" \
	"orq %%rdx, %%rax\n\t" \
	"movq %%rax, 8(%%r10)\n\t" \
	"movq %c[r_head](%%r11), %%rax\n\t" \
	"jmp 32f\n" \
	/* Another thread's ring, or its turn; a millisecond went by. */ \
	"35:\n\t" \
	"movq %c[r_stamp](%%r11), %%rdx\n\t" \
	"addq %[step], %%rdx\n\t" \
	"jmp 33f\n" \
	"36:\n\t" \
	"movq %[coarse_clock], %%rdx\n\t" \
	"jmp 34f\n" \
	/* The drain thread has made room since. The limit last: both are true then. */ \
	"37:\n\t" \
	"movq %c[r_size](%%r11), %%rdx\n\t" \
	"negq %%rdx\n\t" \
	"andq %%rax, %%rdx\n\t" \
	"negq %%rdx\n\t" \
	"addq %c[r_data](%%r11), %%rdx\n\t" \
	"movq %%rdx, %%fs:%c[t_base](%%r10)\n\t" \
	"movq %c[r_tail](%%r11), %%rdx\n\t" \
	"addq %c[r_watermark](%%r11), %%rdx\n\t" \
	"subq %[room], %%rdx\n\t" \
	"movq %%rdx, %%fs:%c[t_limit](%%r10)\n\t" \
	"cmpq %%rdx, %%rax\n\t" \
	"jb 38b\n\t" \
	"jmp 6f\n\t" \
	/* Jumped to by each event; not in a line of its own, a twentieth more in all. */ \
	".p2align 6\n" \
	"31:\n\t" \
	"movq %%fs:%c[t_stamp](%%r10), %%rdx\n\t" \
	"addq %[step], %%rdx\n\t" \
	"cmpq %c[r_stamp](%%r11), %%rdx\n\t" \
	"jbe 35b\n" \
	"33:\n\t" \
	"cmpq %[coarse_clock], %%rdx\n\t" \
	"jb 36b\n" \
	"34:\n\t" \
	"movq %%rdx, %%fs:%c[t_stamp](%%r10)\n\t" \
	/* to */ \
	"movq %%fs:%c[t_base](%%r10), %%r10\n\t" \
	"movq %%rdx, %c[r_stamp](%%r11)\n\t" \
	"addq %%rax, %%r10\n\t" \
	"movq %%rdx, 8(%%r10)\n" \
	"32:\n\t" \
	"movq %%rdi, 24(%%r10)\n\t" \
	"movq %%rsi, 32(%%r10)\n\t" \
	"movq %%xmm0, 40(%%r10)\n\t" \
	"movq %%rcx, 48(%%r10)\n\t" \
	/* head of the record */ \
	"movl %c[e_index](%%r8), %%edx\n\t" \
	"shlq $32, %%rdx\n\t" \
	"leaq 24(%%r9, %%rdx), %%rdx\n\t" \
	"movq %%rdx, (%%r10)\n\t" \
	"movq %%xmm2, 16(%%r10)\n\t" \
	"leal 31(%%r9), %%edx\n\t" \
	"andl $-8, %%edx\n\t" \
	"addq %%rdx, %%rax\n\t" \
	"movq %%rax, %c[r_head](%%r11)\n"

/* The shared library is never unloaded: whose last event is written may point into it for ever. */
#ifdef RP_NEVER_UNLOADED
#define SECTION_FORGET
#else
#define SECTION_FORGET \
	"movq %[area], %%rdx\n\t" \
	"movq $0, %%fs:%c[area_cs](%%rdx)\n\t"
#endif

/* Behind the commit; and aborted, or with no room. */
#define SECTION_LEAVE \
	SECTION_FORGET \
	"xorl %%eax, %%eax\n\t" \
	"ret\n\t" \
	RP_SECTION_SIGNATURE \
	"4:\n" \
	"6:\n\t" \
	SECTION_LEAVE_FOR("slowly")

#define SECTION_LEAVE_FOR(where) \
	"movq %[area], %%rdx\n\t" \
	"movq $0, %%fs:%c[area_cs](%%rdx)\n\t" \
	"movq %%xmm0, %%rdx\n\t" \
	"jmp %P[" where "]\n"

#define WRITE_OPERANDS \
	[slowly] "i"(rp_event_write_slowly), \
	[area] "m"(rp_rseq_offset), [index] "m"(rp_rseq_index_offset), [slots] "m"(rp_slots), \
	[room] "i"(RP_RECORD_HEAD + 32 - 1), [causal] "i"(RP_SLOT_CLOCK_CAUSAL), \
	[step] "i"(RP_CLOCK_STEP), [coarse_clock] "m"(rp_clock_coarse), \
	[generation] "i"(RP_SLOTS_GENERATION_AT), OFFSET(e_enable, rp_event, enable), \
	OFFSET(e_index, rp_event, index), OFFSET(area_cs, rp_rseq_area, rseq_cs), \
	OFFSET(area_cpu, rp_rseq_area, cpu_id), OFFSET(r_head, rp_ring, head), \
	OFFSET(r_tail, rp_ring, tail), OFFSET(r_watermark, rp_ring, watermark), \
	OFFSET(r_stamp, rp_ring, stamp), OFFSET(t_bit, rp_thread_ring, bit), \
	OFFSET(t_generation, rp_thread_ring, generation), OFFSET(t_ring, rp_thread_ring, ring), \
	OFFSET(t_base, rp_thread_ring, base), OFFSET(r_data, rp_ring, data), \
	OFFSET(r_size, rp_ring, size), OFFSET(t_limit, rp_thread_ring, limit), \
	OFFSET(t_cid, rp_thread_ring, cid), OFFSET(t_clock, rp_thread_ring, clock), \
	OFFSET(t_thread, rp_thread_ring, thread), OFFSET(t_stamp, rp_thread_ring, stamp)

/* a, b, c, d, event, bytes are rdi, rsi, rdx, rcx, r8, r9. */
__attribute__((naked, aligned(64))) RP_PUBLIC int
rp_event_write_words(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct rp_event *event,
		     size_t bytes)
{
	__asm__ volatile(
		/* Enters section 1..2; aborted, it goes on at 4. */
		RP_SECTION_DESCRIPTOR
		"leaq 3b(%%rip), %%r11\n\t"
		"movq %%rdx, %%xmm0\n\t"
		"movq %[area], %%rdx\n\t"
		"movq rp_thread_ring@gottpoff(%%rip), %%r10\n\t"
		"movq %%r11, %%fs:%c[area_cs](%%rdx)\n"
		"1:\n\t"
		"movq %c[e_enable](%%r8), %%rax\n\t"
		"cmpq %%rax, %%fs:%c[t_bit](%%r10)\n\t"
		"jne 5f\n\t"
		"movq %[slots], %%rax\n\t"
		"movq %c[generation](%%rax), %%rax\n\t"
		"cmpq %%rax, %%fs:%c[t_generation](%%r10)\n\t"
		"jne 5f\n\t"
		"movq %[index], %%rax\n\t"
		"movl %%fs:(%%rdx, %%rax), %%eax\n\t"
		"cmpl %%eax, %%fs:%c[t_cid](%%r10)\n\t"
		"jne 5f\n\t"
		"movd %%fs:%c[area_cpu](%%rdx), %%xmm1\n\t"
		"movq %%fs:%c[t_ring](%%r10), %%r11\n\t"
		SECTION_WRITE
		"2:\n\t"
		SECTION_LEAVE
		"5:\n\t"
		SECTION_LEAVE_FOR("anew")
		:
		: WRITE_OPERANDS, [anew] "i"(rp_event_write_anew)
		: "memory", "cc");
}

/* In two asms, since one may not have as many operands; they are one piece of code. */
__attribute__((naked)) int rp_event_write_anew(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
					       struct rp_event *event, size_t bytes)
{
	__asm__ volatile(
		"movq %c[e_enable](%%r8), %%rax\n\t"
		"leaq -1(%%rax), %%r10\n\t"
		"orq %[unusual], %%r10\n\t"
		"testq %%rax, %%r10\n\t"
		"jnz 9f\n\t"
		"movq rp_activity_slots@gottpoff(%%rip), %%r10\n\t"
		"cmpl $0, %%fs:%c[any](%%r10)\n\t"
		"jne 8f\n\t"
		"rep bsfq %%rax, %%r10\n\t"
		"imulq %[slot_bytes], %%r10, %%r10\n\t"
		"addq %[slots], %%r10\n\t"
		/* Enters section 1..2; aborted, it goes on at 4. */
		RP_SECTION_DESCRIPTOR
		"leaq 3b(%%rip), %%r11\n\t"
		"movq %%rdx, %%xmm0\n\t"
		"movq %[area], %%rdx\n\t"
		"movq %%r11, %%fs:%c[area_cs](%%rdx)\n"
		"1:\n\t"
		"testq %%rax, %c[e_enable](%%r8)\n\t"
		"jz 6f\n\t"
		"testq %%rax, %[unusual]\n\t"
		"jnz 6f\n\t"
		"movq %%rax, %%xmm2\n\t"
		"movq %c[s_rings](%%r10), %%r11\n\t"
		"testq %%r11, %%r11\n\t"
		"jz 6f\n\t"
		/* Who is not registered is not aborted either. */
		"movl %%fs:%c[area_cpu](%%rdx), %%eax\n\t"
		"testl %%eax, %%eax\n\t"
		"js 6f\n\t"
		"movd %%eax, %%xmm1\n\t"
		"movq %[index], %%rax\n\t"
		"movl %%fs:(%%rdx, %%rax), %%eax\n\t"
		"cmpq %c[s_count](%%r10), %%rax\n\t"
		"jae 6f\n\t"
		"movq (%%r11, %%rax, 8), %%r11\n\t"
		"testq %%r11, %%r11\n\t"
		"jz 6f\n\t"
		"movl %c[s_clock](%%r10), %%r10d\n\t"
		"movq rp_activity_slots@gottpoff(%%rip), %%rdx\n\t"
		"cmpl $0, %%fs:%c[any](%%rdx)\n\t"
		"jne 6f\n\t"
		/* r11 is the ring, rax the concurrency id, r10 the clock, xmm2 the bit */
		"movq rp_thread_ring@gottpoff(%%rip), %%rdx\n\t"
		"movq $-1, %%fs:%c[t_bit](%%rdx)\n\t"
		"movl %%eax, %%fs:%c[t_cid](%%rdx)\n\t"
		"movl %%r10d, %%fs:%c[t_clock](%%rdx)\n\t"
		"movq %%r11, %%fs:%c[t_ring](%%rdx)\n\t"
		"movq %[slots], %%rax\n\t"
		"movq %c[generation](%%rax), %%rax\n\t"
		"movq %%rax, %%fs:%c[t_generation](%%rdx)\n\t"
		"movq $0, %%fs:%c[t_limit](%%rdx)\n\t"
		"movl %[thread], %%eax\n\t"
		"movl %%fs:(%%rax), %%eax\n\t"
		"movl %%eax, %%fs:%c[t_thread](%%rdx)\n\t"
		"movq %%xmm2, %%fs:%c[t_bit](%%rdx)\n\t"
		"movq %%rdx, %%r10\n\t"
		:
		: [unusual] "m"(rp_unusual_slots), [slots] "m"(rp_slots),
		  [area] "m"(rp_rseq_offset), [index] "m"(rp_rseq_index_offset),
		  [slot_bytes] "i"(sizeof(struct rp_slot)),
		  [thread] "m"(rp_thread_id_offset), [generation] "i"(RP_SLOTS_GENERATION_AT),
		  OFFSET(any, rp_activity_slots, any), OFFSET(e_enable, rp_event, enable),
		  OFFSET(area_cs, rp_rseq_area, rseq_cs), OFFSET(area_cpu, rp_rseq_area, cpu_id),
		  OFFSET(s_rings, rp_slot, rings), OFFSET(s_count, rp_slot, ring_count),
		  OFFSET(s_clock, rp_slot, clock), OFFSET(t_bit, rp_thread_ring, bit),
		  OFFSET(t_generation, rp_thread_ring, generation),
		  OFFSET(t_ring, rp_thread_ring, ring), OFFSET(t_limit, rp_thread_ring, limit),
		  OFFSET(t_cid, rp_thread_ring, cid), OFFSET(t_clock, rp_thread_ring, clock),
		  OFFSET(t_thread, rp_thread_ring, thread)
		: "memory", "cc");
	__asm__ volatile(
		SECTION_WRITE
		"2:\n\t"
		SECTION_LEAVE
		"8:\n\t"
		"jmp %P[slowly]\n"
		"9:\n\t"
		"testq %[unusual], %%rax\n\t"
		"jz %P[in_turn]\n\t"
		"jmp %P[slowly]\n\t"
		:
		: WRITE_OPERANDS, [unusual] "m"(rp_unusual_slots),
		  [in_turn] "i"(rp_event_write_in_turn)
		: "memory", "cc");
}

#endif
