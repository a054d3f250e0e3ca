/* SPDX-License-Identifier: MIT */
/*
 * The writer as one restartable section. The section executes completely on one concurrency id, or
 * has no visible effect, and needs no LOCK prefix. Kernel contract: rseq(2),
 * include/uapi/linux/rseq.h.
 *
 *	write:
 *		if (!(*enable & bit))			-> GONE
 *		rings = slot->rings; if (!rings)	-> GONE
 *		cid = area->mm_cid, processor = area->cpu_id
 *		if (processor < 0 || cid >= slot->ring_count) -> NO_RING
 *		ring = rings[cid]; if (!ring)		-> NO_RING
 *		used = ring->head - ring->tail + step		[RING-SPACE]
 *		if (used > ring->size)			-> FULL
 *		above = used > ring->watermark
 *		to = ring->data + (ring->head & (ring->size - 1))
 *		to->ticks = rdtsc, or by another clock
 *		to->head, prefix, parts
 *		ring->head += step			commit	[RING-PUB]
 *
 *	lose: the same tests; still full: ring->lost_full++	commit
 *
 *	install: the first tests, then makes a claimed buffer the ring (THE POOL in slot.h); then
 *	the write is tried again:
 *		ring = rings[cid]; if (ring && it has space)	-> ABORTED
 *		if (slot->owners[index] != token)		-> ABORTED	[POOL-OWNER]
 *		slot->pool[index]->stamp = the later of its own and ring->stamp
 *		rings[cid] = slot->pool[index]		commit	[POOL-RING]
 *
 *	switch_subbuf: the same section as lose, in a ring that overwrites; then the write is tried
 *	again:
 *		boundary = ring->tail + ring->size
 *		if (ring->head == boundary)
 *			ring->tail += ring->subbuf	commit	[RING-SUBBUF]
 *		else
 *			ring->ends[head / subbuf % subbufs] = head
 *			ring->head = boundary		commit	[RING-PUB]
 *
 * The section tests the bit and the slot because the test outside is only a hint: the session may
 * have stopped since, and another session may have started. A preemption, migration or signal
 * before the commit transfers control to the abort handler, and no reader can see what the section
 * wrote.
 *
 * With the coarse clock, the section raises ring->stamp and the thread's stamp before the commit.
 * If an abort follows, the stamps are later than necessary, which is harmless.
 *
 * The commit is the last instruction of a section. If an instruction followed it inside the
 * section, an abort there would repeat the write. A loss is therefore counted in a separate
 * section.
 *
 * ONE CLOCK reading serves all sessions that want an event, because the reading is most of the
 * cost. The writer may reuse the time only if the thread was not interrupted since the reading.
 * Otherwise a record could get a time before a sequence point but be written after it. The kernel
 * makes interruptions visible: it clears rseq_cs when it preempts, signals or fences a thread
 * outside the section to which rseq_cs points. The writer therefore leaves rseq_cs set from one
 * session to the next, and tests it inside the section, where an interruption is an abort:
 *
 *	multi-session:
 *		if (!write->ticks)
 *			area->rseq_cs = section
 *		-- the section begins --
 *		if (area->rseq_cs != section)		-> ABORTED
 *		the tests, as above
 *		to->ticks = write->ticks ? write->ticks : (write->ticks = rdtsc)
 *		to->head, prefix, parts
 *		ring->head += step			commit	[RING-PUB]
 *		-- rseq_cs still points here --
 *
 *	writer			membarrier, preemption, signal		the drain thread then
 *	------			------------------------------		---------------------
 *	rdtsc			abort					finds neither record
 *	commit 1
 *	between the two		rseq_cs = NULL				finds the first
 *	look at rseq_cs		abort
 *	commit 2							finds both
 *
 * The multi-session section is separate, so that a write to a single session does not pay for the
 * test of rseq_cs.
 */
#include "ring/asm_offsets.h"
#include "ring/section.h"

#ifdef RP_HAVE_RSEQ

	.hidden	rp_clock_coarse, rp_rseq_index_offset, rp_rseq_offset, rp_thread_ring

/*
 * Enter a function. Afterwards: r9: its struct rp_write; rax: the descriptor; rcx: the rseq area.
 */
.macro enter_function name
	movq	%rdi, %r9
	describe_section \name
	movq	rp_rseq_offset(%rip), %rcx
	leaq	.L\name\()_section(%rip), %rax
.endm

.macro enter_section name
	movq	%rax, %fs:RSEQ_CS(%rcx)
.L\name\()_begin:
.endm

/* If there is a time already, rseq_cs was set for the first session of this event. */
.macro enter_section_multi name
	cmpq	$0, WRITE_TICKS(%r9)
	jne	.L\name\()_begin
	movq	%rax, %fs:RSEQ_CS(%rcx)
.L\name\()_begin:
	cmpq	%rax, %fs:RSEQ_CS(%rcx)
	jne	.L\name\()_abort
.endm

/* The first tests. Afterwards: r8: the table of rings; r10: the slot; rax: the concurrency id. */
.macro find_rings name
	movq	WRITE_ENABLE(%r9), %rax
	movq	(%rax), %rax
	testq	%rax, WRITE_BIT(%r9)
	jz	.L\name\()_gone
	movq	WRITE_SLOT(%r9), %r10
	movq	SLOT_RINGS(%r10), %r8
	testq	%r8, %r8
	jz	.L\name\()_gone
	movl	%fs:RSEQ_CPU_ID(%rcx), %r11d
	addq	rp_rseq_index_offset(%rip), %rcx
	movl	%fs:(%rcx), %eax
	testl	%r11d, %r11d
	js	.L\name\()_no_ring
	cmpq	SLOT_RING_COUNT(%r10), %rax
	jae	.L\name\()_no_ring
.endm

/*
 * Compare the bytes used, including the record, with the ring's size. Afterwards: rdx: the head;
 * rax: these bytes.
 */
.macro compare_space
	movq	RING_HEAD(%r8), %rdx
	movq	%rdx, %rax
	subq	RING_TAIL(%r8), %rax
	addq	WRITE_STEP(%r9), %rax
	cmpq	RING_SIZE(%r8), %rax
.endm

/*
 * The tests with which every write begins. Afterwards: r8: the ring; r10: the slot; r11d: the
 * processor; the other registers as after compare_space.
 */
.macro find_ring name
	find_rings \name
	movq	(%r8, %rax, 8), %r8
	testq	%r8, %r8
	jz	.L\name\()_no_ring
	compare_space
.endm

/*
 * Copy the part at r10 to rdi, and continue at next_part. Small parts were stored just before,
 * field by field. A load that is wider than these stores cannot be forwarded from them and would
 * wait for the cache, so small parts are copied by loads of at most 8 bytes.
 */
.macro copy_part name
	movq	PART_SIZE_BYTES(%r10), %rcx
	movq	PART_BASE(%r10), %rsi
	cmpq	$64, %rcx
	ja	.L\name\()_copy_large
	subq	$32, %rcx
	jb	.L\name\()_copy_below_32
.L\name\()_copy_32:
	movq	(%rsi), %rax
	movq	8(%rsi), %rdx
	movq	%rax, (%rdi)
	movq	%rdx, 8(%rdi)
	movq	16(%rsi), %rax
	movq	24(%rsi), %rdx
	movq	%rax, 16(%rdi)
	movq	%rdx, 24(%rdi)
	addq	$32, %rsi
	addq	$32, %rdi
	subq	$32, %rcx
	jae	.L\name\()_copy_32
.L\name\()_copy_below_32:
	addl	$32, %ecx
	jz	.L\name\()_next_part
	subl	$8, %ecx
	jb	.L\name\()_copy_below_8
.L\name\()_copy_8:
	movq	(%rsi), %rax
	movq	%rax, (%rdi)
	addq	$8, %rsi
	addq	$8, %rdi
	subl	$8, %ecx
	jae	.L\name\()_copy_8
	testb	$7, %cl
	jz	.L\name\()_next_part
	jmp	.L\name\()_copy_below_8
.L\name\()_copy_large:
	cmpq	$512, %rcx
	ja	.L\name\()_copy_string
	subq	$16, %rcx
.L\name\()_copy_16:
	movups	(%rsi), %xmm0
	movups	%xmm0, (%rdi)
	addq	$16, %rsi
	addq	$16, %rdi
	subq	$16, %rcx
	jae	.L\name\()_copy_16
	/* 0 to 15 bytes remain: the low four bits of rcx. */
	testb	$15, %cl
	jz	.L\name\()_next_part
	testb	$8, %cl
	jz	.L\name\()_copy_below_8
	movq	(%rsi), %rax
	movq	%rax, (%rdi)
	addq	$8, %rsi
	addq	$8, %rdi
.L\name\()_copy_below_8:
	testb	$4, %cl
	jz	.L\name\()_copy_below_4
	movl	(%rsi), %eax
	movl	%eax, (%rdi)
	addq	$4, %rsi
	addq	$4, %rdi
.L\name\()_copy_below_4:
	testb	$2, %cl
	jz	.L\name\()_copy_below_2
	movw	(%rsi), %ax
	movw	%ax, (%rdi)
	addq	$2, %rsi
	addq	$2, %rdi
.L\name\()_copy_below_2:
	testb	$1, %cl
	jz	.L\name\()_next_part
	movb	(%rsi), %al
	movb	%al, (%rdi)
	incq	%rdi
	jmp	.L\name\()_next_part
.L\name\()_copy_string:
	rep movsb
	jmp	.L\name\()_next_part
.endm

/*
 * Write the record, from the result of the space comparison to the commit. If `once` is 1, reuse
 * the time of an earlier session for the same event.
 */
.macro write_record name, once=0
	ja	.L\name\()_full
	cmpq	RING_WATERMARK(%r8), %rax
	seta	WRITE_ABOVE(%r9)
	/* rdi: the address of the record */
	movq	RING_SIZE(%r8), %rdi
	decq	%rdi
	andq	%rdx, %rdi
	addq	RING_DATA(%r8), %rdi
	/* With many sessions, the next cache lines of a ring are in no near cache. */
	prefetchw 256(%rdi)
	cmpl	$CLOCK_TICKS, SLOT_CLOCK(%r10)
	jne	.L\name\()_other_clock
	.if	\once
	movq	WRITE_TICKS(%r9), %rax
	testq	%rax, %rax
	jnz	.L\name\()_stamp
	.endif
.L\name\()_read_clock:
	rdtsc
	shlq	$32, %rdx
	orq	%rdx, %rax
	.if	\once
	movq	%rax, WRITE_TICKS(%r9)
	.endif
.L\name\()_stamp:
	movq	%rax, RECORD_TICKS(%rdi)
	/* The header. Its first word contains length and event. */
	movq	WRITE_LENGTH_EVENT(%r9), %rax
	movq	WRITE_THREAD_FLAGS(%r9), %rdx
	movq	%rax, (%rdi)
	movq	%rdx, RECORD_THREAD(%rdi)
	movw	%r11w, RECORD_PROCESSOR(%rdi)
	addq	$RECORD_HEADER, %rdi
	/* r10: the current part; r11: the number of remaining parts, or 0 for the prefix */
	movq	WRITE_PARTS(%r9), %r10
	movq	WRITE_PART_COUNT(%r9), %r11
	cmpq	$0, WRITE_PREFIX_BYTES(%r9)
	jne	.L\name\()_prefix
.L\name\()_parts:
	testq	%r11, %r11
	jz	.L\name\()_commit
.L\name\()_part:
	copy_part \name
	/* enum rp_slot_clock in slot.h describes the other clocks. */
.L\name\()_other_clock:
	cmpl	$CLOCK_COARSE, SLOT_CLOCK(%r10)
	je	.L\name\()_coarse
	lfence
	jmp	.L\name\()_read_clock
.L\name\()_coarse:
	movq	rp_thread_ring@gottpoff(%rip), %rcx
	movq	%fs:CACHE_STAMP(%rcx), %rax
	movq	RING_STAMP(%r8), %rdx
	cmpq	%rdx, %rax
	cmovb	%rdx, %rax
	addq	$CLOCK_STEP, %rax
	movq	rp_clock_coarse(%rip), %rdx
	cmpq	%rdx, %rax
	cmovb	%rdx, %rax
	movq	%rax, %fs:CACHE_STAMP(%rcx)
	movq	%rax, RING_STAMP(%r8)
	jmp	.L\name\()_stamp
	/* Continue with the next part, or after the prefix with the first part. */
.L\name\()_another_part:
	jl	.L\name\()_first_part
	addq	$PART_BYTES, %r10
	jmp	.L\name\()_part
	/* The prefix is copied like a part, before the other parts. */
.L\name\()_prefix:
	leaq	WRITE_PREFIX(%r9), %r10
	xorl	%r11d, %r11d
	jmp	.L\name\()_part
.L\name\()_first_part:
	movq	WRITE_PARTS(%r9), %r10
	movq	WRITE_PART_COUNT(%r9), %r11
	jmp	.L\name\()_parts
.L\name\()_next_part:
	decq	%r11
	jnz	.L\name\()_another_part
.L\name\()_commit:
	movq	WRITE_STEP(%r9), %rax
	addq	%rax, RING_HEAD(%r8)
.L\name\()_end:
.endm

/* Clear rseq_cs, so that no thread's rseq_cs points here after a static copy is unloaded. */
.macro leave_section
	movq	rp_rseq_offset(%rip), %rcx
	movq	$0, %fs:RSEQ_CS(%rcx)
	ret
.endm

/* All exits but success. rcx is scratch. RP_WRITE_FULL comes first. */
.macro leave_otherwise name
.L\name\()_full:
	movl	$RESULT_FULL, %eax
	leave_section
.L\name\()_gone:
	movl	$RESULT_GONE, %eax
	leave_section
.L\name\()_no_ring:
	movl	$RESULT_NO_RING, %eax
	leave_section
	abort_handler \name
	movl	$RESULT_ABORTED, %eax
	leave_section
.endm

/* Each section exists once, because a test aborts each of its instructions. */
function rp_slot_try_rseq
	enter_function try
	enter_section try
	find_ring try
	write_record try
	xorl	%eax, %eax
	leave_section
	leave_otherwise try
end_function rp_slot_try_rseq

function rp_slot_try_rseq_multi
	enter_function multi
	enter_section_multi multi
	find_ring multi
	write_record multi, once=1
	/* rseq_cs continues to point here, for the next session. */
	xorl	%eax, %eax
	ret
	leave_otherwise multi
end_function rp_slot_try_rseq_multi

function rp_slot_lose_or_switch
	enter_function lose
	enter_section lose
	find_ring lose
	/* There is space now, so the caller tries to write again. */
	jbe	.Llose_abort
	movq	RING_SUBBUF(%r8), %rax
	testq	%rax, %rax
	jz	.Llose_count
	/* switch_subbuf; rsi: the boundary */
	movq	RING_TAIL(%r8), %r10
	movq	RING_SIZE(%r8), %rsi
	addq	%r10, %rsi
	cmpq	%rsi, %rdx
	jne	.Llose_end_subbuf
	leaq	(%r10, %rax), %rsi
	leaq	RING_TAIL(%r8), %rdi
	jmp	.Llose_commit
.Llose_end_subbuf:
	bsfq	%rax, %rcx
	movq	%rdx, %r10
	shrq	%cl, %r10
	andl	$RING_LAST_SUBBUF, %r10d
	movq	%rdx, RING_ENDS(%r8, %r10, 8)
	leaq	RING_HEAD(%r8), %rdi
	jmp	.Llose_commit
.Llose_count:
	movq	RING_LOST_FULL(%r8), %rsi
	incq	%rsi
	leaq	RING_LOST_FULL(%r8), %rdi
.Llose_commit:
	movq	%rsi, (%rdi)
.Llose_end:
	testq	%rax, %rax
	jnz	.Llose_abort
	leave_otherwise lose
end_function rp_slot_lose_or_switch

/* Arguments: rsi: the buffer's index; rdx, later rdi: its token. */
function rp_slot_install
	enter_function install
	movq	%rdx, %rdi
	enter_section install
	find_rings install
	/* rcx: the address of the table entry for this id */
	leaq	(%r8, %rax, 8), %rcx
	movq	(%rcx), %r8
	testq	%r8, %r8
	jz	.Linstall_owner
	compare_space
	jbe	.Linstall_abort
.Linstall_owner:
	cmpq	%rdi, SLOT_OWNERS(%r10, %rsi, 8)
	jne	.Linstall_abort
	movq	SLOT_POOL(%r10), %rax
	movq	(%rax, %rsi, 8), %rax
	/* The new ring must not have an earlier stamp than the previous one (coarse clock). */
	testq	%r8, %r8
	jz	.Linstall_commit
	movq	RING_STAMP(%r8), %rdx
	cmpq	%rdx, RING_STAMP(%rax)
	jae	.Linstall_commit
	movq	%rdx, RING_STAMP(%rax)
.Linstall_commit:
	movq	%rax, (%rcx)
.Linstall_end:
	xorl	%eax, %eax
	leave_section
	leave_otherwise install
end_function rp_slot_install

#endif
