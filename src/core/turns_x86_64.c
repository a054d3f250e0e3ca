/* SPDX-License-Identifier: MIT */
/*
 * Words for several sessions, one after another by one reading of the clock: what words_x86_64.c
 * does for one, and ONE CLOCK of ring/write_x86_64.c. What the thread runs on is looked at once as
 * well, since nothing came between.
 *
 *	each session:
 *		if (area->rseq_cs != section)			-> the rest
 *		if (!(*enable & bit))				-> the rest
 *		rings = slot->rings; if (!rings)		-> the rest
 *		if (slot->clock is not the usual one)		-> the rest
 *		the first: processor, concurrency id, ticks = rdtsc
 *		if (cid >= slot->ring_count)			-> the rest
 *		ring = rings[cid]; if (!ring)			-> the rest
 *		if (head + all the words - tail > watermark) [RING-ROOM] -> the rest
 *		all the words, head, ticks
 *		ring->head += step			commit	[RING-PUB]
 *
 * The rest: this session and those behind it go to rp_event_write_rest(), an abort too.
 *
 * Naked, as words_x86_64.c is; what it needs lives in registers alone.
 */
#include "core/words.h"

#if defined(RP_HAVE_RSEQ) && defined(__x86_64__)


_Static_assert(RP_SLOT_CLOCK_TICKS == 0, "as it is compared");
_Static_assert(RP_SLOTS <= RP_REST_BYTES_AT, "bytes lie above the slots");

#pragma GCC diagnostic ignored "-Wunused-parameter"

/*
 * a, b, c, d, event, bytes are rdi, rsi, rdx, rcx, r8, r9. In the loop: xmm1 is a and b, xmm0 c and
 * d, xmm2 the time; rdi the record's first word, rsi its third, rcx the concurrency id, negative
 * before the first; r9 the step; r10 the slots that are left.
 */
__attribute__((naked)) int rp_event_write_in_turn(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
						  struct rp_event *event, size_t bytes)
{
	__asm__ volatile(
		"movq rp_activity_slots@gottpoff(%%rip), %%r11\n\t"
		"cmpl $0, %%fs:%c[any](%%r11)\n\t"
		"jne 9f\n\t"
		"movq %c[e_enable](%%r8), %%r10\n\t"
		"testq %[unusual], %%r10\n\t"
		"jnz 9f\n\t"
		"testq %%r10, %%r10\n\t"
		"jz 9f\n\t"
		"movq %%rdi, %%xmm1\n\t"
		"movq %%rsi, %%xmm2\n\t"
		"punpcklqdq %%xmm2, %%xmm1\n\t"
		"movq %%rdx, %%xmm0\n\t"
		"movq %%rcx, %%xmm2\n\t"
		"punpcklqdq %%xmm2, %%xmm0\n\t"
		"movl %c[e_index](%%r8), %%edi\n\t"
		"shlq $32, %%rdi\n\t"
		"leaq 24(%%r9, %%rdi), %%rdi\n\t"
		"addq $31, %%r9\n\t"
		"andq $-8, %%r9\n\t"
		"movq $-1, %%rcx\n\t"
		/* Enters section 1..2; aborted, it goes on at 4. */
		RP_SECTION_DESCRIPTOR
		"leaq 3b(%%rip), %%rax\n\t"
		"movq %[area], %%rdx\n\t"
		"movq %%rax, %%fs:%c[area_cs](%%rdx)\n"
		"20:\n\t"
		"rep bsfq %%r10, %%r11\n\t"
		"imulq %[slot_bytes], %%r11, %%r11\n\t"
		"addq %[slots], %%r11\n\t"
		"leaq 3b(%%rip), %%rax\n\t"
		"movq %[area], %%rdx\n"
		"1:\n\t"
		"cmpq %%rax, %%fs:%c[area_cs](%%rdx)\n\t"
		"jne 5f\n\t"
		"movq %%r10, %%rax\n\t"
		"negq %%rax\n\t"
		"andq %%r10, %%rax\n\t"
		"testq %%rax, %c[e_enable](%%r8)\n\t"
		"jz 5f\n\t"
		"cmpl $0, %c[s_clock](%%r11)\n\t"
		"jne 5f\n\t"
		"testq %%rcx, %%rcx\n\t"
		"jns 22f\n\t"
		/* The first. Who is not registered is not aborted either. */
		"movl %%fs:%c[area_cpu](%%rdx), %%esi\n\t"
		"testl %%esi, %%esi\n\t"
		"js 5f\n\t"
		"addq %[index], %%rdx\n\t"
		"movl %%fs:(%%rdx), %%ecx\n\t"
		"shlq $32, %%rsi\n\t"
		"movl %[thread], %%eax\n\t"
		"movl %%fs:(%%rax), %%eax\n\t"
		"orq %%rax, %%rsi\n\t"
		"rdtsc\n\t"
		"shlq $32, %%rdx\n\t"
		"orq %%rdx, %%rax\n\t"
		"movq %%rax, %%xmm2\n"
		"22:\n\t"
		"movq %c[s_rings](%%r11), %%rdx\n\t"
		"testq %%rdx, %%rdx\n\t"
		"jz 5f\n\t"
		"cmpq %c[s_count](%%r11), %%rcx\n\t"
		"jae 5f\n\t"
		"movq (%%rdx, %%rcx, 8), %%rdx\n\t"
		"testq %%rdx, %%rdx\n\t"
		"jz 5f\n\t"
		/* rdx is the ring; rax its head, r11 what it would hold */
		"movq %c[r_head](%%rdx), %%rax\n\t"
		"leaq %c[whole](%%rax), %%r11\n\t"
		"subq %c[r_tail](%%rdx), %%r11\n\t"
		"cmpq %c[r_watermark](%%rdx), %%r11\n\t"
		"ja 5f\n\t"
		/* to */
		"movq %c[r_size](%%rdx), %%r11\n\t"
		"decq %%r11\n\t"
		"andq %%rax, %%r11\n\t"
		"addq %c[r_data](%%rdx), %%r11\n\t"
		/* Rings of many sessions have their next lines in no near cache. */
		"prefetchw 256(%%r11)\n\t"
		"movups %%xmm1, 24(%%r11)\n\t"
		"movups %%xmm0, 40(%%r11)\n\t"
		"movq %%rdi, (%%r11)\n\t"
		"movq %%xmm2, 8(%%r11)\n\t"
		"movq %%rsi, 16(%%r11)\n\t"
		"addq %%r9, %c[r_head](%%rdx)\n"
		"2:\n\t"
		"leaq -1(%%r10), %%rax\n\t"
		"andq %%rax, %%r10\n\t"
		"jnz 20b\n\t"
		"movq %[area], %%rdx\n\t"
		"movq $0, %%fs:%c[area_cs](%%rdx)\n\t"
		"xorl %%eax, %%eax\n\t"
		"ret\n"
		"9:\n\t"
		"jmp %P[slowly]\n\t"
		RP_SECTION_SIGNATURE
		"4:\n"
		"5:\n\t"
		"movq %[area], %%rdx\n\t"
		"movq $0, %%fs:%c[area_cs](%%rdx)\n\t"
		"movl %%edi, %%r9d\n\t"
		"subl $24, %%r9d\n\t"
		"shlq %[bytes_at], %%r9\n\t"
		"orq %%r10, %%r9\n\t"
		"movq %%xmm1, %%rdi\n\t"
		"punpckhqdq %%xmm1, %%xmm1\n\t"
		"movq %%xmm1, %%rsi\n\t"
		"movq %%xmm0, %%rdx\n\t"
		"punpckhqdq %%xmm0, %%xmm0\n\t"
		"movq %%xmm0, %%rcx\n\t"
		"jmp %P[rest]\n\t"
		:
		/* `whole` is the room that is asked for, whatever of it the event takes. */
		: [unusual] "m"(rp_unusual_slots), [slots] "m"(rp_slots),
		  [slot_bytes] "i"(sizeof(struct rp_slot)), [area] "m"(rp_rseq_offset),
		  [index] "m"(rp_rseq_index_offset), [thread] "m"(rp_thread_id_offset),
		  [slowly] "i"(rp_event_write_slowly), [whole] "i"(RP_RECORD_HEAD + 32),
		  OFFSET(any, rp_activity_slots, any), OFFSET(e_enable, rp_event, enable),
		  OFFSET(e_index, rp_event, index), OFFSET(area_cs, rp_rseq_area, rseq_cs),
		  OFFSET(area_cpu, rp_rseq_area, cpu_id), OFFSET(s_rings, rp_slot, rings),
		  OFFSET(s_count, rp_slot, ring_count), OFFSET(s_clock, rp_slot, clock),
		  OFFSET(r_head, rp_ring, head), OFFSET(r_tail, rp_ring, tail),
		  OFFSET(r_size, rp_ring, size), OFFSET(r_data, rp_ring, data),
		  OFFSET(r_watermark, rp_ring, watermark),
		  [rest] "i"(rp_event_write_rest), [bytes_at] "i"(RP_REST_BYTES_AT)
		: "memory", "cc");
}

#endif
