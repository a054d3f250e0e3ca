/* SPDX-License-Identifier: MIT */
/*
 * Uses the processor in five functions, in random order, so that the order has no period that could
 * agree with that of a sampling clock. Runs until it is killed.
 */
#include <stdint.h>
#include <stdio.h>

#define ROUNDS 100000u

/* Not inlined, and different from each other, so that they are not folded into one. */
#define HOT(name, constant) \
	static __attribute__((noinline)) uint64_t name(uint64_t value) \
	{ \
		for (uint32_t i = 0; i < ROUNDS; i++) { \
			value = value * 6364136223846793005u + (constant); \
			__asm__ volatile("" : "+r"(value)); \
		} \
		return value; \
	}

HOT(hot_40, 1442695040888963401u)
HOT(hot_25, 1442695040888963403u)
HOT(hot_15, 1442695040888963405u)
HOT(hot_12, 1442695040888963407u)
HOT(hot_8, 1442695040888963409u)

static uint64_t run(uint32_t percent, uint64_t value)
{
	if (percent < 40)
		return hot_40(value);
	if (percent < 65)
		return hot_25(value);
	if (percent < 80)
		return hot_15(value);
	return percent < 92 ? hot_12(value) : hot_8(value);
}

int main(void)
{
	volatile uint64_t result = 1;
	uint64_t random = 88172645463325252u;

	puts("ready");
	fflush(stdout);
	for (;;) {
		/* xorshift64 */
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		result = run((uint32_t)(random % 100), result);
	}
}
