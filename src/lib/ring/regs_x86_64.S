/* SPDX-License-Identifier: MIT */
/*
 * Write an event in the usual case: one session wants it, and its payload is in registers. The
 * sections do the same as the section in write_x86_64.S, which explains their rules. That section
 * writes any payload, from a struct in memory. Storing that struct and loading it again would cost
 * as much as everything here.
 *
 * The first section uses the per-thread ring cache (struct rp_thread_ring in ring/slot.h). Without
 * the cache, four loads would each wait for the previous load, and take twice as long as the
 * remaining instructions.
 *
 *	write:
 *		if (*enable is not cache.bit)			-> miss
 *		if (generation of all slots is not cache.generation) -> miss	[SLOT-AGE]
 *		if (area->mm_cid is not cache.cid)		-> miss
 *		ring = cache.ring
 *		if (ring->head >= cache.limit)
 *			cache.base = ring->data - (ring->head & -ring->size)
 *			cache.limit = ring->tail + ring->watermark - largest record + 1	[RING-SPACE]
 *			if (ring->head >= cache.limit) -> slow
 *		to = cache.base + ring->head
 *		to->ticks = by the coarse clock, or rdtsc
 *		store payload, header
 *		ring->head += step			commit	[RING-PUB]
 *
 * The second section finds the ring and fills the cache:
 *
 *	if (*enable & slow_mask, or the thread has ids)	-> slow
 *	if (*enable has two bits)			-> multi_x86_64.S
 *	write:
 *		if (!(*enable & bit) or bit & slow_mask)		-> slow
 *		rings = slot->rings; if (!rings)		-> slow
 *		if (area->cpu_id < 0)				-> slow
 *		cid = area->mm_cid; if (cid >= slot->ring_count) -> slow
 *		ring = rings[cid]; if (!ring)			-> slow
 *		if (the thread has ids)				-> slow
 *		fill the cache
 *		from `if (ring->head …` on as above
 *
 * Both tests of these conditions are necessary: after the first test, another session may have got
 * the bit, and a signal handler may have set ids.
 *
 * A section that exits before the commit, by an abort or otherwise, has changed nothing visible.
 * After a miss, the second section follows. After any other exit, rp_event_write_slow() repeats all
 * tests, writes the event, and counts losses.
 *
 * These functions are not written in C because a compiler's code for them saves five registers,
 * which takes a tenth of the total time. They use only caller-saved registers, have no stack frame,
 * and leave by jumps. A stack of the event therefore begins with the event's caller.
 */
#include "ring/asm_offsets.h"
#include "ring/section.h"

#ifdef RP_HAVE_RSEQ

	.hidden	rp_clock_coarse, rp_rseq_index_offset, rp_rseq_offset, rp_slots
	.hidden	rp_thread_id_offset, rp_thread_ring, rp_regs_slow_mask
	.hidden	rp_event_write_multi, rp_event_write_slow

/* Leave the section by a jump: clear rseq_cs, and restore the arguments. */
.macro leave_for function
	movq	rp_rseq_offset(%rip), %rdx
	movq	$0, %fs:RSEQ_CS(%rdx)
	movq	%xmm0, %rdx
	jmp	\function
.endm

/*
 * Write the record, from the test for space to the end of the function. Input: r11: the ring; r10:
 * the ring cache; xmm1: the processor; xmm0: the third payload word. rax becomes the head, and r10
 * the address of the record.
 */
.macro write_record name
	movq	RING_HEAD(%r11), %rax
	cmpq	%fs:CACHE_LIMIT(%r10), %rax
	jae	.L\name\()_limit
.L\name\()_space:
	/* A processor's number has at most 16 bits. */
	movd	%fs:CACHE_THREAD(%r10), %xmm2
	punpckldq %xmm1, %xmm2
	cmpl	$CLOCK_CAUSAL, %fs:CACHE_CLOCK(%r10)
	ja	.L\name\()_coarse
	jne	.L\name\()_read_clock
	lfence
.L\name\()_read_clock:
	movq	%fs:CACHE_BASE(%r10), %r10
	addq	%rax, %r10
	rdtsc
	shlq	$32, %rdx
	orq	%rdx, %rax
	movq	%rax, RECORD_TICKS(%r10)
	movq	RING_HEAD(%r11), %rax
	jmp	.L\name\()_payload
	/* Another thread wrote the last record of the ring. */
.L\name\()_ring_is_later:
	movq	RING_STAMP(%r11), %rdx
	addq	$CLOCK_STEP, %rdx
	jmp	.L\name\()_compare_clock
	/* The coarse clock has moved. */
.L\name\()_clock_is_later:
	movq	rp_clock_coarse(%rip), %rdx
	jmp	.L\name\()_stamp
	/*
	 * The drain thread may have freed space. Store the base before the limit, which makes both
	 * valid.
	 */
.L\name\()_limit:
	movq	RING_SIZE(%r11), %rdx
	negq	%rdx
	andq	%rax, %rdx
	negq	%rdx
	addq	RING_DATA(%r11), %rdx
	movq	%rdx, %fs:CACHE_BASE(%r10)
	movq	RING_TAIL(%r11), %rdx
	addq	RING_WATERMARK(%r11), %rdx
	subq	$RECORD_HEADER + REGS_BYTES_MAX - 1, %rdx
	movq	%rdx, %fs:CACHE_LIMIT(%r10)
	cmpq	%rdx, %rax
	jb	.L\name\()_space
	jmp	.L\name\()_slow
	/*
	 * With the coarse clock, each event jumps here. Without the alignment, it takes 5 % longer.
	 */
	.p2align 6
.L\name\()_coarse:
	movq	%fs:CACHE_STAMP(%r10), %rdx
	addq	$CLOCK_STEP, %rdx
	cmpq	RING_STAMP(%r11), %rdx
	jbe	.L\name\()_ring_is_later
.L\name\()_compare_clock:
	cmpq	rp_clock_coarse(%rip), %rdx
	jb	.L\name\()_clock_is_later
.L\name\()_stamp:
	movq	%rdx, %fs:CACHE_STAMP(%r10)
	movq	%fs:CACHE_BASE(%r10), %r10
	movq	%rdx, RING_STAMP(%r11)
	addq	%rax, %r10
	movq	%rdx, RECORD_TICKS(%r10)
.L\name\()_payload:
	movq	%rdi, RECORD_HEADER(%r10)
	movq	%rsi, RECORD_HEADER + 8(%r10)
	movq	%xmm0, RECORD_HEADER + 16(%r10)
	movq	%rcx, RECORD_HEADER + 24(%r10)
	/* The first header word: length and event. */
	movl	EVENT_INDEX(%r8), %edx
	shlq	$32, %rdx
	leaq	RECORD_HEADER(%r9, %rdx), %rdx
	movq	%rdx, (%r10)
	movq	%xmm2, RECORD_THREAD(%r10)
	leal	RECORD_HEADER + 7(%r9), %edx
	andl	$-8, %edx
	addq	%rdx, %rax
	movq	%rax, RING_HEAD(%r11)
.L\name\()_end:
	/* The shared library is never unloaded, so rseq_cs may point to this section for ever. */
#ifndef RP_NEVER_UNLOADED
	movq	rp_rseq_offset(%rip), %rdx
	movq	$0, %fs:RSEQ_CS(%rdx)
#endif
	xorl	%eax, %eax
	ret
	abort_handler \name
.L\name\()_slow:
	leave_for rp_event_write_slow
.endm

/* The arguments a, b, c, d, event, bytes are in rdi, rsi, rdx, rcx, r8, r9. */
function rp_event_write_regs, public=1, bytes=64
	describe_section regs
	leaq	.Lregs_section(%rip), %r11
	movq	%rdx, %xmm0
	movq	rp_rseq_offset(%rip), %rdx
	movq	rp_thread_ring@gottpoff(%rip), %r10
	movq	%r11, %fs:RSEQ_CS(%rdx)
.Lregs_begin:
	movq	EVENT_ENABLE(%r8), %rax
	cmpq	%rax, %fs:CACHE_BIT(%r10)
	jne	.Lregs_miss
	movq	rp_slots(%rip), %rax
	movq	SLOTS_GENERATION(%rax), %rax
	cmpq	%rax, %fs:CACHE_GENERATION(%r10)
	jne	.Lregs_miss
	movq	rp_rseq_index_offset(%rip), %rax
	movl	%fs:(%rdx, %rax), %eax
	cmpl	%eax, %fs:CACHE_CID(%r10)
	jne	.Lregs_miss
	movd	%fs:RSEQ_CPU_ID(%rdx), %xmm1
	movq	%fs:CACHE_RING(%r10), %r11
	write_record regs
.Lregs_miss:
	leave_for rp_event_write_miss
end_function rp_event_write_regs

function rp_event_write_miss
	movq	EVENT_ENABLE(%r8), %rax
	leaq	-1(%rax), %r10
	orq	rp_regs_slow_mask(%rip), %r10
	testq	%rax, %r10
	jnz	.Lmiss_not_one_session
	movq	rp_thread_ring@gottpoff(%rip), %r10
	cmpl	$0, %fs:CACHE_HAS_IDS(%r10)
	jne	.Lmiss_ids
	rep bsfq %rax, %r10
	imulq	$SLOT_BYTES, %r10, %r10
	addq	rp_slots(%rip), %r10
	describe_section miss
	leaq	.Lmiss_section(%rip), %r11
	movq	%rdx, %xmm0
	movq	rp_rseq_offset(%rip), %rdx
	movq	%r11, %fs:RSEQ_CS(%rdx)
.Lmiss_begin:
	testq	%rax, EVENT_ENABLE(%r8)
	jz	.Lmiss_slow
	testq	%rax, rp_regs_slow_mask(%rip)
	jnz	.Lmiss_slow
	movq	%rax, %xmm2
	movq	SLOT_RINGS(%r10), %r11
	testq	%r11, %r11
	jz	.Lmiss_slow
	/* A thread that is not registered is never aborted. */
	movl	%fs:RSEQ_CPU_ID(%rdx), %eax
	testl	%eax, %eax
	js	.Lmiss_slow
	movd	%eax, %xmm1
	movq	rp_rseq_index_offset(%rip), %rax
	movl	%fs:(%rdx, %rax), %eax
	cmpq	SLOT_RING_COUNT(%r10), %rax
	jae	.Lmiss_slow
	movq	(%r11, %rax, 8), %r11
	testq	%r11, %r11
	jz	.Lmiss_slow
	movl	SLOT_CLOCK(%r10), %r10d
	movq	rp_thread_ring@gottpoff(%rip), %rdx
	cmpl	$0, %fs:CACHE_HAS_IDS(%rdx)
	jne	.Lmiss_slow
	/* r11: the ring; rax: the concurrency id; r10: the clock; xmm2: the bit */
	movq	$-1, %fs:CACHE_BIT(%rdx)
	movl	%eax, %fs:CACHE_CID(%rdx)
	movl	%r10d, %fs:CACHE_CLOCK(%rdx)
	movq	%r11, %fs:CACHE_RING(%rdx)
	movq	rp_slots(%rip), %rax
	movq	SLOTS_GENERATION(%rax), %rax
	movq	%rax, %fs:CACHE_GENERATION(%rdx)
	movq	$0, %fs:CACHE_LIMIT(%rdx)
	movl	rp_thread_id_offset(%rip), %eax
	movl	%fs:(%rax), %eax
	movl	%eax, %fs:CACHE_THREAD(%rdx)
	movq	%xmm2, %fs:CACHE_BIT(%rdx)
	movq	%rdx, %r10
	write_record miss
.Lmiss_ids:
	jmp	rp_event_write_slow
.Lmiss_not_one_session:
	testq	%rax, rp_regs_slow_mask(%rip)
	jz	rp_event_write_multi
	jmp	rp_event_write_slow
end_function rp_event_write_miss

#endif
