/* SPDX-License-Identifier: MIT */
/*
 * Stacks of events whose writers use unwind rules that another thread looked up. Eventually every
 * stack is complete, whichever instructions are on it. Until then, a stack ends with the mark of a
 * truncated one, or is empty. Compiled without frame pointers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include <ringpipe/types.h>

#include "../in_valgrind.h"
#include "base/atomic.h"
#include "base/thread.h"
#include "unwind/unwind.h"

#define SITES 2000u
#define DEPTH 90u
#define CHAINS 40u
#define ROUNDS (DEPTH / 2)	/* each learns the rules of several frames */
#define FRAMES_MAX 100u
#define INNERMOST 4u	/* frames of sites before those of descend() */

/* The sites have their own section, so that an address identifies them. */
#define PLACE(name) __attribute__((noinline, section("text_" #name)))
extern const char __start_text_sites[], __stop_text_sites[];

static uint64_t frames[FRAMES_MAX];
static const void *return_addresses[DEPTH + 1];	/* of descend(), by `left` */

static __attribute__((noinline)) int take(void)
{
	int count = rp_unwind_callers(__builtin_frame_address(0), frames, FRAMES_MAX);

	__asm__ volatile("" ::: "memory");
	return count;
}

/* A function that saves rbp, and uses it for something else. */
static PLACE(sites) int overwrite_rbp(void)
{
	int count;

	__asm__ volatile("xorl %%ebp, %%ebp" : : : "rbp");
	count = take();
	__asm__ volatile("" ::: "memory");
	return count;
}

/* A function whose frame is found by rbp, because its size is known only at run time. */
static PLACE(sites) int take_above_block(unsigned int size)
{
	volatile char *block = __builtin_alloca(size);
	int count;

	block[0] = 1;
	count = overwrite_rbp();
	block[0] = 2;
	return count;
}

/*
 * A function that realigns its stack: its frame is at an address that it saved, because neither the
 * stack pointer nor the frame pointer has a known distance from it.
 */
static PLACE(sites) int take_realigned(unsigned int size)
{
	_Alignas(64) volatile char aligned[64];
	volatile char *block = __builtin_alloca(size);
	int count;

	aligned[0] = 1;
	count = take_above_block(size);
	block[0] = aligned[0];
	return count;
}

static PLACE(sites) int descend(unsigned int site, unsigned int left);

/* Two thousand call sites, at irregular distances. */
#define SITE(n) \
	case n: \
		count = descend((site * 1103 + 17) % SITES, left - 1); \
		__asm__ volatile(".skip %c0, 0x90" : : "i"(1 + (n) * (n) % 13) : "memory"); \
		break;
#define TEN(n) \
	SITE(n) SITE(n + 1) SITE(n + 2) SITE(n + 3) SITE(n + 4) \
	SITE(n + 5) SITE(n + 6) SITE(n + 7) SITE(n + 8) SITE(n + 9)
#define HUNDRED(n) \
	TEN(n) TEN(n + 10) TEN(n + 20) TEN(n + 30) TEN(n + 40) TEN(n + 50) TEN(n + 60) TEN(n + 70) \
	TEN(n + 80) TEN(n + 90)
#define THOUSAND(n) \
	HUNDRED(n) HUNDRED(n + 100) HUNDRED(n + 200) HUNDRED(n + 300) HUNDRED(n + 400) \
	HUNDRED(n + 500) HUNDRED(n + 600) HUNDRED(n + 700) HUNDRED(n + 800) HUNDRED(n + 900)

static PLACE(sites) int descend(unsigned int site, unsigned int left)
{
	int count = 0;

	return_addresses[left] = __builtin_return_address(0);
	if (left == 0) {
		count = take_realigned(16 + site % 64);
		__asm__ volatile("" ::: "memory");	/* not a tail call */
		return count;
	}
	switch (site) {
	THOUSAND(0)
	THOUSAND(1000)
	}
	return count;
}

/* Descend with an rbp that leads, as a frame pointer, to a frame that does not exist. */
static __attribute__((noinline)) int descend_with_wrong_rbp(unsigned int site)
{
	const void *const nowhere[2] = { NULL, __stop_text_sites };
	int count;

	__asm__ volatile("movq %0, %%rbp" : : "r"(nowhere) : "rbp", "memory");
	count = descend(site, DEPTH);
	__asm__ volatile("" : : "r"(nowhere) : "memory");
	return count;
}

/* Return: whether the first `count` frames are those of the stack. */
static bool are_right(unsigned int count)
{
	for (unsigned int i = 0; i < count && i < DEPTH + INNERMOST + 1; i++) {
		if (i >= INNERMOST &&
		    frames[i] != (uint64_t)(uintptr_t)return_addresses[i - INNERMOST])
			return false;
		if (i < INNERMOST && (frames[i] < (uint64_t)(uintptr_t)__start_text_sites ||
				      frames[i] >= (uint64_t)(uintptr_t)__stop_text_sites))
			return false;
	}
	return true;
}

static bool is_whole(int count)
{
	return count > (int)(DEPTH + INNERMOST) && are_right((unsigned int)count);
}

static bool is_marked(int count)
{
	return count == -EAGAIN || (count > 0 && frames[count - 1] == RP_FRAME_CUT);
}

static uint32_t is_created;
static unsigned int cut, cut_unmarked, cut_wrong, marked_though_known;

/* Return: the chain that never became complete, or NULL. */
static void *learn_chains(void *data)
{
	static unsigned int chain;

	(void)data;
	/* Until its creation, the thread's stack is unknown. */
	while (!rp_load_acquire(&is_created))
		sched_yield();
	for (chain = 0; chain < CHAINS; chain++) {
		unsigned int round = 0;

		for (; round < ROUNDS; round++) {
			int count = descend_with_wrong_rbp(chain * 47);
			bool whole = is_whole(count), asked = rp_unwind_cache_fill() > 0;

			cut += !whole;
			cut_unmarked += !whole && !is_marked(count);
			cut_wrong += count > 0 && !are_right((unsigned int)count - !whole);
			marked_though_known += !asked && is_marked(count);
			if (whole)
				break;
		}
		if (round == ROUNDS)
			return &chain;
	}
	return NULL;
}

/* In a thread whose stack bounds the library knows. */
Test(unwind_cache, every_stack_is_whole_in_the_end_and_correct_up_to_its_cut, .timeout = 120)
{
	pthread_t thread;
	void *missing;

	if (runs_in_valgrind())
		cr_skip_test("valgrind runs code of its own");
	rp_thread_init();
	cr_assert_eq(rp_thread_create(&thread, "learner", learn_chains, NULL), 0);
	rp_store_release(&is_created, 1);
	cr_assert_eq(pthread_join(thread, &missing), 0);
	cr_assert_null(missing, "chain %u", *(unsigned int *)missing);
	cr_expect_gt(cut, 0u);
	cr_expect_eq(cut_unmarked, 0u, "%u of %u", cut_unmarked, cut);
	cr_expect_eq(cut_wrong, 0u, "%u of %u", cut_wrong, cut);
	cr_expect_eq(marked_though_known, 0u);
}
