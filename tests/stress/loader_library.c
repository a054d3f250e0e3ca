/* SPDX-License-Identifier: MIT */
/* A library with events and counters that the test of the loader loads and unloads. */
#include <ringpipe/ringpipe.h>

#include "loader.h"

RP_PROVIDER(library, LIBRARY_NAME);
RP_EVENT(library, called, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(number), RP_STRING(text));
RP_EVENT(library, other, 2, RP_LEVEL_VERBOSE, 0, RP_U64(number));

RP_COUNTER(library, calls, "calls", NULL);
RP_HISTOGRAM(library, numbers, NULL, NULL);

__attribute__((visibility("default"))) uint64_t library_call(void);

/* Return: the number of calls since the library was loaded. */
uint64_t library_call(void)
{
	static uint64_t calls;
	uint64_t number = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);

	library_calls_add(1);
	library_numbers_record((double)number);
	(void)library_called(number, LOADER_TEXT);
	(void)library_other(number);
	return number;
}
