/* SPDX-License-Identifier: MIT */
/*
 * The minimum for an event of 32 bytes in a per-CPU ring: a call, a test whether the event is
 * enabled, a restartable section that finds the ring and its space, stores 56 bytes with a time
 * from memory, and commits. It has no thread id, no session end, no order between rings, no
 * wake-up, and no loss accounting.
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#if defined(__x86_64__) && defined(__GLIBC__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define BENCH_HAS_FLOOR 1
#endif

#ifdef BENCH_HAS_FLOOR

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FLOOR_PROCESSORS 1024u
#define FLOOR_BYTES (8u << 20)

struct floor_ring {
	uint64_t head, tail, size;
	uint8_t *data;
};

static struct floor_ring *floor_rings[FLOOR_PROCESSORS];
static uint64_t floor_wanted = 1, floor_time;
static ptrdiff_t floor_area;

/* Return: 1; 0 if aborted or without space. */
__attribute__((noinline)) static int floor_write(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	int ret = 0;

	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n\t"
		".balign 32\n"
		"3:\n\t"
		".long 0, 0\n\t"
		".quad 1f, 2f - 1f, 4f\n\t"
		".popsection\n\t"
		"movq %[area], %%r8\n\t"
		"leaq 3b(%%rip), %%rax\n\t"
		"movq %%rax, %%fs:%c[cs](%%r8)\n"
		"1:\n\t"
		"cmpq $0, %[wanted]\n\t"
		"je 5f\n\t"
		"movl %%fs:%c[cpu](%%r8), %%eax\n\t"
		"leaq %[rings], %%r9\n\t"
		"movq (%%r9, %%rax, 8), %%r9\n\t"
		"movq %c[head](%%r9), %%r10\n\t"
		"leaq 56(%%r10), %%r11\n\t"
		"subq %c[tail](%%r9), %%r11\n\t"
		"cmpq %c[size](%%r9), %%r11\n\t"
		"ja 5f\n\t"
		"movq %c[size](%%r9), %%r11\n\t"
		"decq %%r11\n\t"
		"andq %%r10, %%r11\n\t"
		"addq %c[data](%%r9), %%r11\n\t"
		"movq %%rax, 16(%%r11)\n\t"
		"movq $56, (%%r11)\n\t"
		"movq %[time], %%rax\n\t"
		"movq %%rax, 8(%%r11)\n\t"
		"movq %[a], 24(%%r11)\n\t"
		"movq %[b], 32(%%r11)\n\t"
		"movq %[c], 40(%%r11)\n\t"
		"movq %[d], 48(%%r11)\n\t"
		"addq $56, %c[head](%%r9)\n"
		"2:\n\t"
		"movl $1, %[ret]\n\t"
		"jmp 5f\n\t"
		/*
		 * The signature that glibc registered, as the operand of an undefined instruction.
		 */
		".byte 0x0f, 0xb9, 0x3d\n\t"
		".long 0x53053053\n"
		"4:\n"
		"5:\n\t"
		"movq $0, %%fs:%c[cs](%%r8)\n\t"
		: [ret] "+&r"(ret)
		: [a] "r"(a), [b] "r"(b), [c] "r"(c), [d] "r"(d), [area] "m"(floor_area),
		  [wanted] "m"(floor_wanted), [time] "m"(floor_time), [rings] "m"(floor_rings),
		  [cs] "i"(offsetof(struct rseq, rseq_cs)),
		  [cpu] "i"(offsetof(struct rseq, cpu_id)),
		  [head] "i"(offsetof(struct floor_ring, head)),
		  [tail] "i"(offsetof(struct floor_ring, tail)),
		  [size] "i"(offsetof(struct floor_ring, size)),
		  [data] "i"(offsetof(struct floor_ring, data))
		: "rax", "r8", "r9", "r10", "r11", "memory", "cc");
	return ret;
}

/* Return: whether rseq works here. */
static bool floor_begin(unsigned int processors)
{
	if (!__rseq_size || processors > FLOOR_PROCESSORS)
		return false;
	floor_area = __rseq_offset;
	for (unsigned int i = 0; i < processors; i++) {
		struct floor_ring *ring = calloc(1, 4096);

		if (!ring)
			return false;
		ring->size = FLOOR_BYTES;
		ring->data = malloc(FLOOR_BYTES + 64);
		if (!ring->data)
			return false;
		memset(ring->data, 1, FLOOR_BYTES + 64);
		floor_rings[i] = ring;
	}
	return true;
}

/* Empties the rings. */
static void floor_empty(unsigned int processors)
{
	for (unsigned int i = 0; i < processors; i++)
		floor_rings[i]->tail = floor_rings[i]->head;
}

#endif

#endif
