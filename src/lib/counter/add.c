/* SPDX-License-Identifier: MIT */
/*
 * Counter updates: one restartable sequence (rseq section) per cell. The kernel's contract is as in
 * ring/write_x86_64.S.
 *
 *	add:
 *		if (area->cpu_id < 0)			-> spare row
 *		row = area->mm_cid; if (row >= rows)	-> spare row
 *		*(cell + (row << 16)) += by		commit
 *
 *	raise: the same, but the cell becomes `to` if that is more
 *
 * No other thread has this concurrency id while the section runs. So the commit, which is its last
 * instruction, needs no LOCK prefix. A thread without rseq, or whose section is aborted repeatedly,
 * uses a spare row with atomic operations.
 *
 * The sections are inline assembly: a function in a .S file would add a call and a return to each,
 * and a value of a histogram takes six sections.
 */
#include <errno.h>

#include <ringpipe/counter.h>

#include "base/atomic.h"
#include "base/thread.h"
#include "counter/buckets.h"
#include "counter/cells.h"
#include "ring/rseq.h"
#include "ring/section.h"

#define ABORTS_MAX 8

enum outcome {
	DONE,
	NO_ROW,
	ABORTED,
};

#if defined(RP_HAVE_RSEQ) && defined(__x86_64__)

/* Begin the section, which is 1..2. Afterwards rax is the cell's address in the thread's row. */
#define SECTION_BEGIN \
	RP_SECTION_DESCRIPTOR \
	/* The abort handler, after the signature which glibc registered. */ \
	".pushsection __rseq_failure, \"ax\"\n\t" \
	RP_SECTION_SIGNATURE \
	"4:\n\t" \
	"jmp %l[aborted]\n\t" \
	".popsection\n\t" \
	"leaq 3b(%%rip), %%rax\n\t" \
	"movq %%rax, %c[area_cs](%[area])\n" \
	"1:\n\t" \
	"cmpl $0, %c[area_cpu](%[area])\n\t" \
	"js %l[no_row]\n\t" \
	"movl (%[area], %[index]), %%eax\n\t" \
	"cmpl %[rows], %%eax\n\t" \
	"jae %l[no_row]\n\t" \
	"shlq %[shift], %%rax\n\t" \
	"addq %[cell], %%rax\n\t"

/* Clear rseq_cs, so that it does not point here after a static copy is unloaded. */
#define SECTION_END \
	"2:\n\t" \
	"movq $0, %c[area_cs](%[area])\n\t"

/* The ends of a function after its section: rseq_cs is still set at no_row. */
#define SECTION_OUTCOMES \
	return DONE; \
no_row: \
	area->rseq_cs = 0; \
	return NO_ROW; \
aborted: \
	return ABORTED

#define OPERANDS \
	[area] "r"(area), [index] "r"(rp_rseq_index_offset), [rows] "m"(rp_cell_rows), \
	[cell] "r"(cell), [shift] "i"(RP_CELL_SHIFT), \
	[area_cs] "i"(offsetof(struct rp_rseq_area, rseq_cs)), \
	[area_cpu] "i"(offsetof(struct rp_rseq_area, cpu_id))

static inline __attribute__((always_inline)) enum outcome
section_add(char *cell, uint64_t by, struct rp_rseq_area *area)
{
	__asm__ goto(
		SECTION_BEGIN
		"addq %[by], (%%rax)\n"
		SECTION_END
		: : OPERANDS, [by] "r"(by) : "rax", "memory", "cc" : no_row, aborted);
	SECTION_OUTCOMES;
}

static inline enum outcome section_add_double(char *cell, double by, struct rp_rseq_area *area)
{
	__asm__ goto(
		SECTION_BEGIN
		"movsd (%%rax), %%xmm15\n\t"
		"addsd %[by], %%xmm15\n\t"
		"movsd %%xmm15, (%%rax)\n"
		SECTION_END
		: : OPERANDS, [by] "x"(by) : "rax", "xmm15", "memory", "cc" : no_row, aborted);
	SECTION_OUTCOMES;
}

static inline enum outcome section_raise(char *cell, uint64_t to, struct rp_rseq_area *area)
{
	__asm__ goto(
		SECTION_BEGIN
		"cmpq %[to], (%%rax)\n\t"
		"jae 2f\n\t"
		"movq %[to], (%%rax)\n"
		SECTION_END
		: : OPERANDS, [to] "r"(to) : "rax", "memory", "cc" : no_row, aborted);
	SECTION_OUTCOMES;
}

#define TRY(section, cell, value) \
	do { \
		if (__builtin_expect(rp_rseq_index_offset == 0, 0)) \
			break; \
		for (int i_ = 0; i_ < ABORTS_MAX; i_++) { \
			enum outcome outcome_ = section(cell, value, rp_rseq_area()); \
			if (__builtin_expect(outcome_ == DONE, 1)) \
				return; \
			if (outcome_ == NO_ROW) \
				break; \
		} \
	} while (0)

#else
#define TRY(section, cell, value) do { } while (0)
#endif

/* Thread ids are often consecutive, so up to RP_CELL_SPARE threads get a row each. */
static char *spare_row(char *cell)
{
	return rp_cell_row(cell, rp_load_relaxed(&rp_cell_rows) +
			   (rp_thread_id() & (RP_CELL_SPARE - 1)));
}

static __attribute__((noinline)) void add_spare(char *cell, uint64_t by)
{
	rp_add_relaxed((uint64_t *)spare_row(cell), by);
}

static inline __attribute__((always_inline)) void add(char *cell, uint64_t by)
{
	TRY(section_add, cell, by);
	add_spare(cell, by);
}

static void add_double(char *cell, double by)
{
	uint64_t *word, old;

	TRY(section_add_double, cell, by);
	word = (uint64_t *)spare_row(cell);
	old = rp_load_relaxed(word);
	while (!rp_cas_seq_cst(word, &old, rp_double_bits(rp_double_of(old) + by)))
		;
}

static void raise_to(char *cell, uint64_t to)
{
	uint64_t *word, old;

	TRY(section_raise, cell, to);
	word = (uint64_t *)spare_row(cell);
	old = rp_load_relaxed(word);
	while (old < to && !rp_cas_seq_cst(word, &old, to))
		;
}

RP_PUBLIC int rp_counter_add(struct rp_counter *counter, int64_t by)
{
	char *cell = rp_load_relaxed(&counter->cells);

	if (__builtin_expect(counter->kind > RP_COUNTER_UPDOWN, 0))
		return -EINVAL;
	if (__builtin_expect(cell != NULL, 1))
		add(cell, (uint64_t)by);
	else
		rp_add_relaxed(&counter->early, (uint64_t)by);
	return 0;
}

RP_PUBLIC int rp_counter_set(struct rp_counter *counter, double value)
{
	uint64_t *cell = (uint64_t *)rp_load_relaxed(&counter->cells);

	if (counter->kind != RP_COUNTER_GAUGE || value != value)
		return -EINVAL;
	/* One cell for all threads: the last value counts. +1, because 0 means "not set". */
	rp_store_relaxed(cell ? cell : &counter->early, rp_double_bits(value) + 1);
	return 0;
}

RP_PUBLIC int rp_counter_record(struct rp_counter *counter, double value)
{
	char *chunk = rp_load_acquire(&counter->cells);
	uint64_t bits = rp_double_bits(value);

	/* Refuse negative values, then NaN and infinity. */
	if (counter->kind != RP_COUNTER_HISTOGRAM || !(value >= 0) || value - value != 0)
		return -EINVAL;
	bits &= ~(1ull << 63);	/* -0 */
	if (!chunk)
		return 0;	/* not registered for lack of memory */
	/* Store the range before the bucket: a reader that sees the bucket must see the range. */
	raise_to(chunk + offsetof(struct rp_histogram_header, ever_max), bits + 1);
	raise_to(chunk + offsetof(struct rp_histogram_header, ever_min), ~bits);
	add(chunk + RP_BUCKETS_OFFSET + rp_bucket_of(bits) * sizeof(uint64_t), 1);
	add_double(chunk + offsetof(struct rp_histogram_header, sum_bits), value);
	raise_to(chunk + offsetof(struct rp_histogram_header, max), bits + 1);
	raise_to(chunk + offsetof(struct rp_histogram_header, min), ~bits);
	return 0;
}
