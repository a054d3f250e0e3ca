/* SPDX-License-Identifier: MIT */
/* usage: faulty none|leak|overflow|undefined|race. Makes the named fault and exits with 0. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *volatile memory;
static volatile int number = INT_MAX;
static int shared;

static void *change(void *data)
{
	(void)data;
	shared++;
	return NULL;
}

static void race(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, change, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	const char *fault = argc == 2 ? argv[1] : "";

	if (strcmp(fault, "leak") == 0) {
		for (int i = 0; i < 100; i++)
			memory = malloc(100);
		memory = NULL;
	} else if (strcmp(fault, "overflow") == 0) {
		memory = malloc(100);
		number = ((volatile char *)memory)[100];
		free(memory);
	} else if (strcmp(fault, "undefined") == 0) {
		number = number + 1;
	} else if (strcmp(fault, "race") == 0) {
		race();
	}
	return 0;
}
