/* SPDX-License-Identifier: MIT */
/*
 * Replaces the module that names functions. It simulates a symbol file that does not answer until
 * the file exists that HANGING_UNTIL names.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <ringpipe/types.h>

RP_PUBLIC int rp_symbols_find(const void *query);

int rp_symbols_find(const void *query)
{
	(void)query;
	while (access(getenv("HANGING_UNTIL"), F_OK) != 0)
		poll(NULL, 0, 1);
	return 0;
}
