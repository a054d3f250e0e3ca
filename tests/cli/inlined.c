/* SPDX-License-Identifier: MIT */
/* A program whose functions the compiler puts into each other, up to three deep. */
#include <stdlib.h>

static volatile unsigned int sink;

static inline __attribute__((always_inline)) void leaf(unsigned int number)
{
	sink = number * 2654435761u;
	sink ^= number;
}

static inline __attribute__((always_inline)) void middle(unsigned int number)
{
	sink += 3;
	leaf(number);
	sink += number;
	leaf(number + 1);
}

static inline __attribute__((always_inline)) unsigned int called(unsigned int number)
{
	return (unsigned int)abs(rand()) + number;
}

/* External functions have no variants with other names. */
unsigned int outer(unsigned int number);
unsigned int plain(unsigned int number);

__attribute__((noinline)) unsigned int outer(unsigned int number)
{
	sink = 1;
	middle(number);
	sink = called(number);
	leaf(sink);
	return sink;
}

__attribute__((noinline)) unsigned int plain(unsigned int number)
{
	sink = number;
	return sink + 1;
}

int main(int argc, char **argv)
{
	(void)argv;
	for (int i = 0; i < argc; i++)
		outer((unsigned int)i);
	return plain(sink) == 0;
}
