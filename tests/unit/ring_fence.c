/* SPDX-License-Identifier: MIT */
/*
 * The fence that ends sessions: after it, no thread is in a section that began before it. A test
 * thread stays in a section until the section is aborted or sees a store made after the fence; it
 * must not see that store.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include <ringpipe/ringpipe.h>

#include "base/atomic.h"
#include "core/core.h"
#include "refuse.h"
#include "ring/ring.h"
#include "ring/rseq.h"
#include "ring/slot.h"

#define ROUNDS 100u

static uint32_t fencing, inside, fenced, round_begun, round_done, violations;

/* Return: whether a section that began before `fencing` was set lasted until `fenced` was. */
static uint32_t stay_inside(void)
{
	uint32_t seen;

	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n\t"
		".balign 32\n"
		"3:\n\t"
		".long 0, 0\n\t"
		".quad 1f, 2f - 1f, 4f\n\t"
		".popsection\n"
		"5:\n\t"
		"xorl %[seen], %[seen]\n\t"
		"leaq 3b(%%rip), %%rax\n\t"
		"movq %%rax, %[cs]\n"
		"1:\n\t"
		"cmpl $0, %[fencing]\n\t"
		"jne 2f\n\t"
		"movl $1, %[inside]\n"
		"6:\n\t"
		"pause\n\t"
		"cmpl $0, %[fenced]\n\t"
		"je 6b\n\t"
		"movl $1, %[seen]\n"
		"2:\n\t"
		"movq $0, %[cs]\n\t"
		".pushsection .text.unlikely, \"ax\"\n\t"
		".byte 0x0f, 0xb9, 0x3d\n\t"	/* ud1 with the required signature */
		".long 0x53053053\n"
		"4:\n\t"
		"jmp 5b\n\t"
		".popsection"
		: [seen] "=&r"(seen), [inside] "+m"(inside), [cs] "+m"(rp_rseq_area()->rseq_cs)
		: [fencing] "m"(fencing), [fenced] "m"(fenced)
		: "rax", "cc", "memory");
	return seen;
}

static void wait_for(const uint32_t *word, uint32_t value)
{
	while (rp_load_acquire(word) != value)
		sched_yield();
}

static void *run(void *data)
{
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		wait_for(&round_begun, round);
		violations += stay_inside();
		rp_store_release(&round_done, round);
	}
	return data;
}

static void expect_fence(void)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, run, NULL), 0);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		rp_store_release(&fencing, 0);
		rp_store_release(&fenced, 0);
		rp_store_release(&inside, 0);
		rp_store_release(&round_begun, round);
		wait_for(&inside, 1);
		rp_store_release(&fencing, 1);
		rp_fence_heavy();
		rp_store_release(&fenced, 1);
		wait_for(&round_done, round);
	}
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect_eq(violations, 0u, "%u of %u", violations, ROUNDS);
}

static void init(void)
{
	cr_assert_eq(rp_core_init(), 0);
	if (!rp_rseq_usable)
		cr_skip_test("no restartable sequences here");
}

TestSuite(ring_fence, .init = init, .timeout = 240);

Test(ring_fence, nobody_is_in_an_older_section_afterwards)
{
	expect_fence();
}

Test(ring_fence, nobody_is_where_the_program_has_forbidden_itself_membarrier)
{
	cpu_set_t before, after;

	cr_assert_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	/* Like a program that permits itself few system calls after its start. */
	if (!refuse_call(SYS_membarrier, EPERM))
		cr_skip_test("no filter may be set here");
	expect_fence();
	cr_assert_eq(sched_getaffinity(0, sizeof(after), &after), 0);
	cr_expect(CPU_EQUAL(&before, &after));
}
