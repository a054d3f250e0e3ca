/* SPDX-License-Identifier: MIT */
/*
 * Spans whose times are known. For each line of standard input, "COUNT MICROSECONDS", the program
 * writes that many spans, and computes in each of them until the time is over. Then it prints a
 * line with the bounds of each span's time in nanoseconds, "LOW-HIGH LOW-HIGH …". It ends with its
 * standard input.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

RP_PROVIDER(timed, "Test-Timed");
RP_EVENT(timed, WorkStart, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));
RP_EVENT(timed, WorkStop, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));
RP_COUNTER(timed, works, "works", "Works done");

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static __attribute__((noinline)) uint64_t timed_mix_numbers(uint64_t number)
{
	for (unsigned int i = 0; i < 100000; i++)
		number = number * 6364136223846793005u + 1442695040888963407u;
	return number;
}

static void work(uint64_t serial, uint64_t us)
{
	static volatile uint64_t result;
	const uint64_t before = now_ns();
	uint64_t begun, ended;

	(void)timed_WorkStart(serial);
	begun = now_ns();
	do {
		if (us >= 1000)
			result = timed_mix_numbers(result);
		ended = now_ns();
	} while (ended - begun < us * 1000);
	(void)timed_WorkStop(serial);
	timed_works_add(1);
	printf("%" PRIu64 "-%" PRIu64 " ", ended - begun, now_ns() - before);
}

int main(void)
{
	uint64_t serial = 0, count, us;

	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (scanf("%" SCNu64 " %" SCNu64, &count, &us) == 2) {
		for (const uint64_t end = serial + count; serial < end; serial++)
			work(serial, us);
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
