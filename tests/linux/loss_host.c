/* SPDX-License-Identifier: MIT */
/*
 *	loss_host [large]
 *
 * Once a session begins, writes events until some are lost: with the argument, first large ones,
 * which only the fallback writes, and then small ones. Prints {"small": N, "large": N}, the numbers
 * of refused events, and waits for the end of its standard input.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define REFUSED_MIN 1000u
#define WRITTEN_MAX 200000000u
#define LARGE 8000

RP_PROVIDER(loss, "Test-Loss");
RP_EVENT(loss, small, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));
RP_EVENT(loss, large, 2, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(text));

static uint64_t write_small(void)
{
	uint64_t refused = 0;

	for (uint64_t i = 0; refused < REFUSED_MIN && i < WRITTEN_MAX; i++)
		refused += loss_small(i) != 0;
	return refused;
}

static uint64_t write_large(void)
{
	static char text[LARGE + 1];
	uint64_t refused = 0;

	memset(text, 'x', LARGE);
	for (uint64_t i = 0; refused < REFUSED_MIN && i < WRITTEN_MAX / LARGE * 10; i++)
		refused += loss_large(text) != 0;
	return refused;
}

int main(int argc, char **argv)
{
	const struct timespec pause = { 0, 1000000 };
	uint64_t small, large = 0;
	char byte;

	(void)argv;
	while (!loss_small_enabled())
		nanosleep(&pause, NULL);
	if (argc > 1)
		large = write_large();
	small = write_small();
	printf("{\"small\": %llu, \"large\": %llu}\n", (unsigned long long)small,
	       (unsigned long long)large);
	fflush(stdout);
	return read(STDIN_FILENO, &byte, 1) < 0;
}
