/* SPDX-License-Identifier: MIT */
/*
 * The writer in one restartable section: all of it happens, or nothing, on one concurrency id, with
 * no LOCK prefix. Kernel contract: Documentation of rseq(2), include/uapi/linux/rseq.h.
 *
 *	write:
 *		if (!(*enable & bit))			-> GONE
 *		rings = slot->rings; if (!rings)	-> GONE
 *		cid = area->mm_cid, processor = area->cpu_id
 *		if (processor < 0 || cid >= slot->ring_count) -> NO_RING
 *		ring = rings[cid]; if (!ring)		-> NO_RING
 *		used = ring->head - ring->tail + step		[RING-ROOM]
 *		if (used > ring->size)			-> FULL
 *		above = used > ring->watermark
 *		to = ring->data + (ring->head & (ring->size - 1))
 *		to->ticks = rdtsc, or by another clock
 *		to->head, prefix, parts
 *		ring->head += step			commit	[RING-PUB]
 *
 *	lose: the same tests; still full: ring->lost_full++	commit
 *
 *	turn: the same section as lose, in a ring that overwrites; then the write is tried again:
 *		border = ring->tail + ring->size
 *		if (ring->head == border)
 *			ring->tail += ring->chunk	commit	[RING-CHUNK]
 *		else
 *			ring->ends[head / chunk % chunks] = head
 *			ring->head = border		commit	[RING-PUB]
 *
 * The bit and the slot are tested inside because the bit outside is only a hint: the session may
 * have stopped and another started since. A preemption, migration or signal anywhere before the
 * commit goes to the abort handler, and nothing was written that anyone can see.
 *
 * By the coarse clock, ring->stamp and the thread's are raised before the commit: an abort in
 * between leaves them later than need be, which is as good.
 *
 * The commit is a section's last instruction: what follows it must not be in the section, or an
 * abort there would write twice. Hence a loss is a section of its own.
 *
 * ONE CLOCK for all sessions that want an event, since its reading is most of what each costs. It
 * may be used again as long as nothing came between, or a sequence point could be passed by what is
 * stamped before it and written behind it. The kernel tells: it NULLs rseq_cs when it preempts,
 * signals or fences a thread outside of the section that rseq_cs points to. So that stays as it is
 * from one session to the next, and the look at it is in the section, where an interruption is an
 * abort:
 *
 *	in turn:
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
 * It is a section apart: one session alone would pay for the look.
 */
#include "ring/slot.h"

#if defined(RP_HAVE_RSEQ) && defined(__x86_64__)

#include "base/clock.h"
#include "ring/rseq.h"
#include "ring/section.h"

/* rax is the descriptor, rcx where the area is. */
#define SECTION_DESCRIBE \
	RP_SECTION_DESCRIPTOR \
	"movq %[area], %%rcx\n\t" \
	"leaq 3b(%%rip), %%rax\n\t"

#define SECTION_ENTER \
	"movq %%rax, %%fs:%c[area_cs](%%rcx)\n" \
	"1:\n\t"

/* Entered before, for this event's first session, where there is a time already. */
#define SECTION_ENTER_IN_TURN \
	"cmpq $0, %c[w_ticks](%[write])\n\t" \
	"jne 1f\n\t" \
	"movq %%rax, %%fs:%c[area_cs](%%rcx)\n" \
	"1:\n\t" \
	"cmpq %%rax, %%fs:%c[area_cs](%%rcx)\n\t" \
	"jne 4f\n\t"

/*
 * The four tests every section begins with. Afterwards r8 is the ring, rdx its head, r10 the slot,
 * r11d the processor, rax what the ring would hold with the record, compared to its size.
 */
#define SECTION_FIND_RING \
	"movq %c[w_enable](%[write]), %%rax\n\t" \
	"movq (%%rax), %%rax\n\t" \
	"testq %%rax, %c[w_bit](%[write])\n\t" \
	"jz 5f\n\t" \
	"movq %c[w_slot](%[write]), %%r10\n\t" \
	"movq %c[s_rings](%%r10), %%r8\n\t" \
	"testq %%r8, %%r8\n\t" \
	"jz 5f\n\t" \
	"movl %%fs:%c[area_cpu](%%rcx), %%r11d\n\t" \
	"addq %[index], %%rcx\n\t" \
	"movl %%fs:(%%rcx), %%eax\n\t" \
	"testl %%r11d, %%r11d\n\t" \
	"js 6f\n\t" \
	"cmpq %c[s_count](%%r10), %%rax\n\t" \
	"jae 6f\n\t" \
	"movq (%%r8, %%rax, 8), %%r8\n\t" \
	"testq %%r8, %%r8\n\t" \
	"jz 6f\n\t" \
	"movq %c[r_head](%%r8), %%rdx\n\t" \
	"movq %%rdx, %%rax\n\t" \
	"subq %c[r_tail](%%r8), %%rax\n\t" \
	"addq %c[w_step](%[write]), %%rax\n\t" \
	"cmpq %c[r_size](%%r8), %%rax\n\t"

/*
 * Ways out; rcx is scratch. rseq_cs is cleared so that no thread points here when a static copy is
 * unloaded.
 */
#define SECTION_END \
	"5:\n\t" \
	"movl $1, %%eax\n\t" \
	"jmp 9f\n" \
	"6:\n\t" \
	"movl $2, %%eax\n\t" \
	"jmp 9f\n" \
	"7:\n\t" \
	"movl $3, %%eax\n\t" \
	"jmp 9f\n\t" \
	RP_SECTION_SIGNATURE \
	"4:\n\t" \
	"movl $4, %%eax\n" \
	"9:\n\t" \
	"movq %[area], %%rcx\n\t" \
	"movq $0, %%fs:%c[area_cs](%%rcx)\n\t"

_Static_assert(RP_WRITE_OK == 0 && RP_WRITE_GONE == 1 && RP_WRITE_NO_RING == 2 &&
	       RP_WRITE_FULL == 3 && RP_WRITE_ABORTED == 4, "the numbers SECTION_END loads");
_Static_assert(offsetof(struct rp_thread_ring, stamp) == 0, "as what is at label 35 has it");
_Static_assert(sizeof(struct rp_part) == 16 && offsetof(struct rp_part, size_bytes) == 8, "");

#define OPERANDS \
	[area] "m"(rp_rseq_offset), [index] "m"(rp_rseq_index_offset), \
	OFFSET(area_cs, rp_rseq_area, rseq_cs), OFFSET(area_cpu, rp_rseq_area, cpu_id), \
	OFFSET(w_enable, rp_write, enable), OFFSET(w_bit, rp_write, bit), \
	OFFSET(w_slot, rp_write, slot), OFFSET(w_step, rp_write, step), \
	OFFSET(s_rings, rp_slot, rings), \
	OFFSET(s_count, rp_slot, ring_count), OFFSET(r_head, rp_ring, head), \
	OFFSET(r_tail, rp_ring, tail), OFFSET(r_size, rp_ring, size)

/* Room; where to; and the clock, by READ. */
#define SECTION_WRITE(read) \
	"ja 7f\n\t" \
	"cmpq %c[r_watermark](%%r8), %%rax\n\t" \
	"seta %c[w_above](%[write])\n\t" \
	/* to */ \
	"movq %c[r_size](%%r8), %%rdi\n\t" \
	"decq %%rdi\n\t" \
	"andq %%rdx, %%rdi\n\t" \
	"addq %c[r_data](%%r8), %%rdi\n\t" \
	/* Whose session is one of many has its ring's next lines in no near cache. */ \
	"prefetchw 256(%%rdi)\n\t" \
	"cmpl $0, %c[s_clock](%%r10)\n\t" \
	"jne 30f\n" \
	read \
	"32:\n\t" \
	"movq %%rax, 8(%%rdi)\n\t" \
	/* head of the record */ \
	"movq %c[w_length_event](%[write]), %%rax\n\t" \
	"movq %c[w_thread_flags](%[write]), %%rdx\n\t" \
	"movq %%rax, (%%rdi)\n\t" \
	"movq %%rdx, 16(%%rdi)\n\t" \
	"movw %%r11w, 20(%%rdi)\n\t" \
	"addq $24, %%rdi\n\t" \
	/* r10 runs over pairs of pointer and size, r11 counts them; 0 for the prefix */ \
	"movq %c[w_parts](%[write]), %%r10\n\t" \
	"movq %c[w_part_count](%[write]), %%r11\n\t" \
	"cmpq $0, %c[w_prefix_bytes](%[write])\n\t" \
	"jne 33f\n" \
	"11:\n\t" \
	"testq %%r11, %%r11\n\t" \
	"jz 19f\n" \
	"12:\n\t" \
	"movq 8(%%r10), %%rcx\n\t" \
	"movq (%%r10), %%rsi\n\t" \
	"cmpq $64, %%rcx\n\t" \
	"ja 21f\n\t" \
	/* \
	 * A small part was stored a moment ago, field by field: a load wider than the \
	 * store it takes its bytes from would wait for the cache. \
	 */ \
	"subq $32, %%rcx\n\t" \
	"jb 22f\n" \
	"24:\n\t" \
	"movq (%%rsi), %%rax\n\t" \
	"movq 8(%%rsi), %%rdx\n\t" \
	"movq %%rax, (%%rdi)\n\t" \
	"movq %%rdx, 8(%%rdi)\n\t" \
	"movq 16(%%rsi), %%rax\n\t" \
	"movq 24(%%rsi), %%rdx\n\t" \
	"movq %%rax, 16(%%rdi)\n\t" \
	"movq %%rdx, 24(%%rdi)\n\t" \
	"addq $32, %%rsi\n\t" \
	"addq $32, %%rdi\n\t" \
	"subq $32, %%rcx\n\t" \
	"jae 24b\n" \
	"22:\n\t" \
	"addl $32, %%ecx\n\t" \
	"jz 18f\n\t" \
	"subl $8, %%ecx\n\t" \
	"jb 15f\n" \
	"23:\n\t" \
	"movq (%%rsi), %%rax\n\t" \
	"movq %%rax, (%%rdi)\n\t" \
	"addq $8, %%rsi\n\t" \
	"addq $8, %%rdi\n\t" \
	"subl $8, %%ecx\n\t" \
	"jae 23b\n\t" \
	"testb $7, %%cl\n\t" \
	"jz 18f\n\t" \
	"jmp 15f\n" \
	"21:\n\t" \
	"cmpq $512, %%rcx\n\t" \
	"ja 17f\n\t" \
	"subq $16, %%rcx\n" \
	"13:\n\t" \
	"movups (%%rsi), %%xmm0\n\t" \
	"movups %%xmm0, (%%rdi)\n\t" \
	"addq $16, %%rsi\n\t" \
	"addq $16, %%rdi\n\t" \
	"subq $16, %%rcx\n\t" \
	"jae 13b\n" \
	/* 0 to 15 bytes are left, as the low four bits of rcx say */ \
	"14:\n\t" \
	"testb $15, %%cl\n\t" \
	"jz 18f\n\t" \
	"testb $8, %%cl\n\t" \
	"jz 15f\n\t" \
	"movq (%%rsi), %%rax\n\t" \
	"movq %%rax, (%%rdi)\n\t" \
	"addq $8, %%rsi\n\t" \
	"addq $8, %%rdi\n" \
	"15:\n\t" \
	"testb $4, %%cl\n\t" \
	"jz 16f\n\t" \
	"movl (%%rsi), %%eax\n\t" \
	"movl %%eax, (%%rdi)\n\t" \
	"addq $4, %%rsi\n\t" \
	"addq $4, %%rdi\n" \
	"16:\n\t" \
	"testb $2, %%cl\n\t" \
	"jz 20f\n\t" \
	"movw (%%rsi), %%ax\n\t" \
	"movw %%ax, (%%rdi)\n\t" \
	"addq $2, %%rsi\n\t" \
	"addq $2, %%rdi\n" \
	"20:\n\t" \
	"testb $1, %%cl\n\t" \
	"jz 18f\n\t" \
	"movb (%%rsi), %%al\n\t" \
	"movb %%al, (%%rdi)\n\t" \
	"incq %%rdi\n\t" \
	"jmp 18f\n" \
	"17:\n\t" \
	"rep movsb\n\t" \
	"jmp 18f\n" \
	/* A clock that is not the usual one: what slot.h says of it. */ \
	"30:\n\t" \
	"cmpl %[coarse], %c[s_clock](%%r10)\n\t" \
	"je 35f\n\t" \
	"lfence\n\t" \
	"jmp 31b\n" \
	"35:\n\t" \
	"movq rp_thread_ring@gottpoff(%%rip), %%rcx\n\t" \
	"movq %%fs:(%%rcx), %%rax\n\t" \
	"movq %c[r_stamp](%%r8), %%rdx\n\t" \
	"cmpq %%rdx, %%rax\n\t" \
	"cmovb %%rdx, %%rax\n\t" \
	"addq %[step], %%rax\n\t" \
	"movq %[coarse_clock], %%rdx\n\t" \
	"cmpq %%rdx, %%rax\n\t" \
	"cmovb %%rdx, %%rax\n\t" \
	"movq %%rax, %%fs:(%%rcx)\n\t" \
	"movq %%rax, %c[r_stamp](%%r8)\n\t" \
	"jmp 32b\n" \
	/* On to the next part, or from the prefix to the first. */ \
	"25:\n\t" \
	"jl 34f\n\t" \
	"addq $16, %%r10\n\t" \
	"jmp 12b\n" \
	/* The prefix is a part of its own, before the others. */ \
	"33:\n\t" \
	"leaq %c[w_prefix](%[write]), %%r10\n\t" \
	"xorl %%r11d, %%r11d\n\t" \
	"jmp 12b\n" \
	"34:\n\t" \
	"movq %c[w_parts](%[write]), %%r10\n\t" \
	"movq %c[w_part_count](%[write]), %%r11\n\t" \
	"jmp 11b\n" \
	"18:\n\t" \
	"decq %%r11\n\t" \
	"jnz 25b\n" \
	"19:\n\t" \
	"movq %c[w_step](%[write]), %%rax\n\t" \
	"addq %%rax, %c[r_head](%%r8)\n"

#define READ_CLOCK \
	"31:\n\t" \
	"rdtsc\n\t" \
	"shlq $32, %%rdx\n\t" \
	"orq %%rdx, %%rax\n"

#define READ_CLOCK_ONCE \
	"movq %c[w_ticks](%[write]), %%rax\n\t" \
	"testq %%rax, %%rax\n\t" \
	"jnz 32f\n" \
	READ_CLOCK \
	"movq %%rax, %c[w_ticks](%[write])\n"

#define WRITE_OPERANDS \
	OPERANDS, \
	OFFSET(r_data, rp_ring, data), OFFSET(r_watermark, rp_ring, watermark), \
	OFFSET(w_above, rp_write, above), OFFSET(s_clock, rp_slot, clock), \
	OFFSET(r_stamp, rp_ring, stamp), OFFSET(w_ticks, rp_write, ticks), \
	[coarse_clock] "m"(rp_clock_coarse), [coarse] "i"(RP_SLOT_CLOCK_COARSE), \
	[step] "i"(RP_CLOCK_STEP), \
	OFFSET(w_length_event, rp_write, length_event), \
	OFFSET(w_thread_flags, rp_write, thread_flags), \
	OFFSET(w_prefix, rp_write, prefix), \
	OFFSET(w_prefix_bytes, rp_write, prefix_bytes), \
	OFFSET(w_parts, rp_write, parts), OFFSET(w_part_count, rp_write, part_count)

#define WRITE_CLOBBERS \
	"rcx", "rdx", "rsi", "rdi", "r8", "r10", "r11", "xmm0", "memory", "cc"

/* One copy: each instruction of it is aborted by a test. */
__attribute__((noinline)) enum rp_write_result rp_slot_try_rseq(struct rp_write *write)
{
	int result;

	__asm__ volatile(
		SECTION_DESCRIBE
		SECTION_ENTER
		SECTION_FIND_RING
		SECTION_WRITE(READ_CLOCK)
		"2:\n\t"
		"xorl %%eax, %%eax\n\t"
		"jmp 9f\n"
		SECTION_END
		: "=&a"(result) : [write] "r"(write), WRITE_OPERANDS : WRITE_CLOBBERS);
	return (enum rp_write_result)result;
}

__attribute__((noinline)) enum rp_write_result rp_slot_try_rseq_in_turn(struct rp_write *write)
{
	int result;

	__asm__ volatile(
		SECTION_DESCRIBE
		SECTION_ENTER_IN_TURN
		SECTION_FIND_RING
		SECTION_WRITE(READ_CLOCK_ONCE)
		"2:\n\t"
		"xorl %%eax, %%eax\n\t"
		"jmp 10f\n"
		SECTION_END
		"10:\n\t"
		: "=&a"(result) : [write] "r"(write), WRITE_OPERANDS : WRITE_CLOBBERS);
	return (enum rp_write_result)result;
}

static int section_lose_or_turn(struct rp_write *write)
{
	int result;

	__asm__ volatile(
		SECTION_DESCRIBE
		SECTION_ENTER
		SECTION_FIND_RING
		/* Room after all: the write is tried again. */
		"jbe 8f\n\t"
		"movq %c[r_chunk](%%r8), %%rax\n\t"
		"testq %%rax, %%rax\n\t"
		"jz 11f\n\t"
		/* turn: rsi is the border */
		"movq %c[r_tail](%%r8), %%r10\n\t"
		"movq %c[r_size](%%r8), %%rsi\n\t"
		"addq %%r10, %%rsi\n\t"
		"cmpq %%rsi, %%rdx\n\t"
		"jne 10f\n\t"
		"leaq (%%r10, %%rax), %%rsi\n\t"
		"leaq %c[r_tail](%%r8), %%rdi\n\t"
		"jmp 12f\n"
		"10:\n\t"
		"bsfq %%rax, %%rcx\n\t"
		"movq %%rdx, %%r10\n\t"
		"shrq %%cl, %%r10\n\t"
		"andl %[last_chunk], %%r10d\n\t"
		"movq %%rdx, %c[r_ends](%%r8, %%r10, 8)\n\t"
		"leaq %c[r_head](%%r8), %%rdi\n\t"
		"jmp 12f\n"
		"11:\n\t"
		"movq %c[r_lost](%%r8), %%rsi\n\t"
		"incq %%rsi\n\t"
		"leaq %c[r_lost](%%r8), %%rdi\n"
		"12:\n\t"
		"movq %%rsi, (%%rdi)\n"
		"2:\n\t"
		"testq %%rax, %%rax\n\t"
		"jnz 4f\n\t"
		"jmp 7f\n"
		"8:\n\t"
		"jmp 4f\n"
		SECTION_END
		: "=&a"(result)
		: [write] "r"(write), OPERANDS,
		  OFFSET(r_lost, rp_ring, lost_full), OFFSET(r_chunk, rp_ring, chunk),
		  OFFSET(r_ends, rp_ring, ends), [last_chunk] "i"(RP_RING_CHUNKS - 1)
		: "rcx", "rdx", "rsi", "rdi", "r8", "r10", "r11", "memory", "cc");
	return result;
}

enum rp_write_result rp_slot_write_rseq(struct rp_write *write)
{
	enum rp_write_result result = rp_slot_try_rseq(write);

	if (__builtin_expect(result == RP_WRITE_FULL, 0))
		result = rp_load_relaxed(&write->slot->wait_ns) ? RP_WRITE_NO_ROOM :
			 (enum rp_write_result)section_lose_or_turn(write);
	return result;
}

#else

enum rp_write_result rp_slot_try_rseq(struct rp_write *write)
{
	(void)write;
	return RP_WRITE_NO_RING;
}

enum rp_write_result rp_slot_try_rseq_in_turn(struct rp_write *write)
{
	(void)write;
	return RP_WRITE_NO_RING;
}

enum rp_write_result rp_slot_write_rseq(struct rp_write *write)
{
	(void)write;
	return RP_WRITE_NO_RING;
}

#endif
