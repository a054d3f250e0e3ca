/* SPDX-License-Identifier: MIT */
/*
 * The usual event: one session wants it, and its payload is some words in registers. The section
 * does what the one of ring/write_x86_64.c does, which see for what it may and may not; that one
 * takes any payload, from a struct in memory, and storing and loading it costs as much as all that
 * is here.
 *
 *	if (*enable & unusual, or the thread has ids)	-> any other way
 *	if (*enable has two bits)			-> turns_x86_64.c
 *	write:
 *		if (!(*enable & bit))			-> …
 *		rings = slot->rings; if (!rings)	-> …
 *		if (area->cpu_id < 0)			-> …
 *		cid = area->mm_cid; if (cid >= slot->ring_count) -> …
 *		ring = rings[cid]; if (!ring)		-> …
 *		if (ring->head + all the words - ring->tail > ring->watermark) -> …	[RING-ROOM]
 *		to = ring->data + (ring->head & (ring->size - 1))
 *		all the words, head
 *		to->ticks = by the coarse clock, or rdtsc
 *		ring->head += step			commit	[RING-PUB]
 *
 * What goes another way, an abort too, has changed nothing that anyone sees, and is then written by
 * rp_event_write_slowly(), which tests all of it again, and counts what is lost.
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

/* a, b, c, d, event, bytes are rdi, rsi, rdx, rcx, r8, r9. */
__attribute__((naked)) RP_PUBLIC int rp_event_write_words(uint64_t a, uint64_t b, uint64_t c,
							  uint64_t d, struct rp_event *event,
							  size_t bytes)
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
		"jz 5f\n\t"
		"movq %c[s_rings](%%r10), %%r11\n\t"
		"testq %%r11, %%r11\n\t"
		"jz 5f\n\t"
		/* Who is not registered is not aborted either. */
		"movl %%fs:%c[area_cpu](%%rdx), %%eax\n\t"
		"testl %%eax, %%eax\n\t"
		"js 5f\n\t"
		"movd %%eax, %%xmm1\n\t"
		"movq %[index], %%rax\n\t"
		"movl %%fs:(%%rdx, %%rax), %%eax\n\t"
		"cmpq %c[s_count](%%r10), %%rax\n\t"
		"jae 5f\n\t"
		"movq (%%r11, %%rax, 8), %%r11\n\t"
		"testq %%r11, %%r11\n\t"
		"jz 5f\n\t"
		/* r11 is the ring, r10 the slot; rax its head, rdx what it would hold */
		"movq %c[r_head](%%r11), %%rax\n\t"
		"leaq %c[whole](%%rax), %%rdx\n\t"
		"subq %c[r_tail](%%r11), %%rdx\n\t"
		"cmpq %c[r_watermark](%%r11), %%rdx\n\t"
		"ja 5f\n\t"
		/* to */
		"movq %c[r_size](%%r11), %%rdx\n\t"
		"decq %%rdx\n\t"
		"andq %%rax, %%rdx\n\t"
		"addq %c[r_data](%%r11), %%rdx\n\t"
		"movq %%rdi, 24(%%rdx)\n\t"
		"movq %%rsi, 32(%%rdx)\n\t"
		"movq %%xmm0, 40(%%rdx)\n\t"
		"movq %%rcx, 48(%%rdx)\n\t"
		/* head of the record; no processor's number takes more than 16 bits */
		"movl %c[e_index](%%r8), %%eax\n\t"
		"shlq $32, %%rax\n\t"
		"leaq 24(%%r9, %%rax), %%rax\n\t"
		"movq %%rax, (%%rdx)\n\t"
		"movl %[thread], %%eax\n\t"
		"movl %%fs:(%%rax), %%eax\n\t"
		"movl %%eax, 16(%%rdx)\n\t"
		"movd %%xmm1, 20(%%rdx)\n\t"
		"cmpl %[causal], %c[s_clock](%%r10)\n\t"
		"ja 31f\n\t"
		"jne 30f\n\t"
		"lfence\n"
		"30:\n\t"
		"movq %%rdx, %%r10\n\t"
		"rdtsc\n\t"
		"shlq $32, %%rdx\n\t"
		"orq %%rdx, %%rax\n\t"
		"movq %%rax, 8(%%r10)\n\t"
		"jmp 32f\n"
		/* Another thread's ring, or its turn; a millisecond went by. */
		"35:\n\t"
		"movq %c[r_stamp](%%r11), %%rax\n\t"
		"addq %[step], %%rax\n\t"
		"jmp 33f\n"
		"36:\n\t"
		"movq %[coarse_clock], %%rax\n\t"
		"jmp 34f\n"
		"31:\n\t"
		"movq rp_thread_stamp@gottpoff(%%rip), %%r10\n\t"
		"movq %%fs:(%%r10), %%rax\n\t"
		"addq %[step], %%rax\n\t"
		"cmpq %c[r_stamp](%%r11), %%rax\n\t"
		"jbe 35b\n"
		"33:\n\t"
		"cmpq %[coarse_clock], %%rax\n\t"
		"jb 36b\n"
		"34:\n\t"
		"movq %%rax, %%fs:(%%r10)\n\t"
		"movq %%rax, %c[r_stamp](%%r11)\n\t"
		"movq %%rax, 8(%%rdx)\n"
		"32:\n\t"
		"leaq 31(%%r9), %%rax\n\t"
		"andq $-8, %%rax\n\t"
		"addq %%rax, %c[r_head](%%r11)\n"
		"2:\n\t"
		"movq %[area], %%rdx\n\t"
		"movq $0, %%fs:%c[area_cs](%%rdx)\n\t"
		"xorl %%eax, %%eax\n\t"
		"ret\n\t"
		RP_SECTION_SIGNATURE
		"4:\n"
		"5:\n\t"
		"movq %[area], %%rdx\n\t"
		"movq $0, %%fs:%c[area_cs](%%rdx)\n\t"
		"movq %%xmm0, %%rdx\n"
		"8:\n\t"
		"jmp %P[slowly]\n"
		"9:\n\t"
		"testq %[unusual], %%rax\n\t"
		"jz %P[in_turn]\n\t"
		"jmp %P[slowly]\n\t"
		:
		: WORDS_OPERANDS, [coarse_clock] "m"(rp_clock_coarse),
		  [in_turn] "i"(rp_event_write_in_turn), [causal] "i"(RP_SLOT_CLOCK_CAUSAL),
		  [step] "i"(RP_CLOCK_STEP), OFFSET(r_stamp, rp_ring, stamp)
		: "memory", "cc");
}

#endif
