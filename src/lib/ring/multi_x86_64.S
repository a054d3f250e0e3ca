/* SPDX-License-Identifier: MIT */
/*
 * Write a payload in registers to several sessions with one clock reading. It does what
 * regs_x86_64.S does for one session, under the rules of ONE CLOCK in write_x86_64.S. It also reads
 * the processor and the concurrency id only once, because the thread was not interrupted.
 *
 *	each session:
 *		if (area->rseq_cs != section)			-> slow
 *		if (!(*enable & bit))				-> slow
 *		rings = slot->rings; if (!rings)		-> slow
 *		if (slot->clock is not the usual one)		-> slow
 *		the first: processor, concurrency id, ticks = rdtsc
 *		if (cid >= slot->ring_count)			-> slow
 *		ring = rings[cid]; if (!ring)			-> slow
 *		if (head + largest record - tail > watermark) [RING-SPACE] -> slow
 *		store payload, header, ticks
 *		ring->head += step			commit	[RING-PUB]
 *
 * "slow": an exit of the section, an abort included, passes this session and the remaining ones
 * to rp_event_write_multi_slow().
 *
 * Like regs_x86_64.S, the function has no stack frame. All its state is in registers.
 */
#include "ring/asm_offsets.h"
#include "ring/section.h"

#ifdef RP_HAVE_RSEQ

	.hidden	rp_rseq_index_offset, rp_rseq_offset, rp_slots, rp_thread_id_offset
	.hidden	rp_thread_ring, rp_regs_slow_mask
	.hidden	rp_event_write_multi_slow, rp_event_write_slow

/*
 * The arguments a, b, c, d, event, bytes are in rdi, rsi, rdx, rcx, r8, r9. In the loop: xmm1 holds
 * a and b, xmm0 holds c and d, xmm2 the time; rdi the record's first word, rsi its third; rcx the
 * concurrency id, negative before the first session; r9 the step; r10 the remaining slots.
 */
function rp_event_write_multi
	movq	rp_thread_ring@gottpoff(%rip), %r11
	cmpl	$0, %fs:CACHE_HAS_IDS(%r11)
	jne	.Lmulti_no_section
	movq	EVENT_ENABLE(%r8), %r10
	testq	%r10, rp_regs_slow_mask(%rip)
	jnz	.Lmulti_no_section
	testq	%r10, %r10
	jz	.Lmulti_no_section
	movq	%rdi, %xmm1
	movq	%rsi, %xmm2
	punpcklqdq %xmm2, %xmm1
	movq	%rdx, %xmm0
	movq	%rcx, %xmm2
	punpcklqdq %xmm2, %xmm0
	movl	EVENT_INDEX(%r8), %edi
	shlq	$32, %rdi
	leaq	RECORD_HEADER(%r9, %rdi), %rdi
	addq	$RECORD_HEADER + 7, %r9
	andq	$-8, %r9
	movq	$-1, %rcx
	describe_section multi
	leaq	.Lmulti_section(%rip), %rax
	movq	rp_rseq_offset(%rip), %rdx
	movq	%rax, %fs:RSEQ_CS(%rdx)
.Lmulti_session:
	rep bsfq %r10, %r11
	imulq	$SLOT_BYTES, %r11, %r11
	addq	rp_slots(%rip), %r11
	leaq	.Lmulti_section(%rip), %rax
	movq	rp_rseq_offset(%rip), %rdx
.Lmulti_begin:
	cmpq	%rax, %fs:RSEQ_CS(%rdx)
	jne	.Lmulti_slow
	movq	%r10, %rax
	negq	%rax
	andq	%r10, %rax
	testq	%rax, EVENT_ENABLE(%r8)
	jz	.Lmulti_slow
	cmpl	$CLOCK_TICKS, SLOT_CLOCK(%r11)
	jne	.Lmulti_slow
	testq	%rcx, %rcx
	jns	.Lmulti_find_ring
	/* The first session. A thread that is not registered is never aborted. */
	movl	%fs:RSEQ_CPU_ID(%rdx), %esi
	testl	%esi, %esi
	js	.Lmulti_slow
	addq	rp_rseq_index_offset(%rip), %rdx
	movl	%fs:(%rdx), %ecx
	shlq	$32, %rsi
	movl	rp_thread_id_offset(%rip), %eax
	movl	%fs:(%rax), %eax
	orq	%rax, %rsi
	rdtsc
	shlq	$32, %rdx
	orq	%rdx, %rax
	movq	%rax, %xmm2
.Lmulti_find_ring:
	movq	SLOT_RINGS(%r11), %rdx
	testq	%rdx, %rdx
	jz	.Lmulti_slow
	cmpq	SLOT_RING_COUNT(%r11), %rcx
	jae	.Lmulti_slow
	movq	(%rdx, %rcx, 8), %rdx
	testq	%rdx, %rdx
	jz	.Lmulti_slow
	/* rdx: the ring; rax: its head; r11: the used bytes with a record of the largest size */
	movq	RING_HEAD(%rdx), %rax
	leaq	RECORD_HEADER + REGS_BYTES_MAX(%rax), %r11
	subq	RING_TAIL(%rdx), %r11
	cmpq	RING_WATERMARK(%rdx), %r11
	ja	.Lmulti_slow
	/* r11: the address of the record */
	movq	RING_SIZE(%rdx), %r11
	decq	%r11
	andq	%rax, %r11
	addq	RING_DATA(%rdx), %r11
	/* With many sessions, the next cache lines of a ring are in no near cache. */
	prefetchw 256(%r11)
	movups	%xmm1, RECORD_HEADER(%r11)
	movups	%xmm0, RECORD_HEADER + 16(%r11)
	movq	%rdi, (%r11)
	movq	%xmm2, RECORD_TICKS(%r11)
	movq	%rsi, RECORD_THREAD(%r11)
	addq	%r9, RING_HEAD(%rdx)
.Lmulti_end:
	leaq	-1(%r10), %rax
	andq	%rax, %r10
	jnz	.Lmulti_session
	movq	rp_rseq_offset(%rip), %rdx
	movq	$0, %fs:RSEQ_CS(%rdx)
	xorl	%eax, %eax
	ret
.Lmulti_no_section:
	jmp	rp_event_write_slow
	abort_handler multi
.Lmulti_slow:
	movq	rp_rseq_offset(%rip), %rdx
	movq	$0, %fs:RSEQ_CS(%rdx)
	movl	%edi, %r9d
	subl	$RECORD_HEADER, %r9d
	shlq	$MULTI_SLOW_BYTES_AT, %r9
	orq	%r10, %r9
	movq	%xmm1, %rdi
	punpckhqdq %xmm1, %xmm1
	movq	%xmm1, %rsi
	movq	%xmm0, %rdx
	punpckhqdq %xmm0, %xmm0
	movq	%xmm0, %rcx
	jmp	rp_event_write_multi_slow
end_function rp_event_write_multi

#endif
