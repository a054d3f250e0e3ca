/* SPDX-License-Identifier: MIT */
/*
 * A library that is loaded and unloaded, without frame pointers: its stack needs its unwind tables.
 */
void passing_call(void (*run)(void));
unsigned long passing_work(unsigned long rounds);

void passing_call(void (*run)(void))
{
	volatile char space[64];

	space[0] = 0;
	run();
	space[1] = space[0];
}

unsigned long passing_work(unsigned long rounds)
{
	unsigned long sum = rounds;

	while (rounds--)
		sum = sum * 6364136223846793005u + 1442695040888963407u;
	return sum;
}
