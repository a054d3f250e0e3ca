/* SPDX-License-Identifier: MIT */
/*
 * Makes requests slow by known causes, to demonstrate `ringpipe explain`.
 *
 * A request asks for a cause by the header `slow-by: CAUSE MICROSECONDS`. The shop measures by its
 * own clock how much time the cause added, and writes a line for each request to a log:
 *
 *	TRACE-ID CAUSE WALL-NS ADDED-NS
 *
 * Causes:
 *	lock		clerks queue for the lock of the database, and each works while it holds it
 *	disk		reads that bypass the page cache
 *	processor	another process of higher priority uses the thread's processor
 *	page		reads of a mapped file whose pages are no longer in the page cache
 *	supplier	another process answers late, on a socket; it continues the trace
 */
#ifndef SHOP_SLOW_H
#define SHOP_SLOW_H

#include <stddef.h>
#include <stdint.h>

#include <ringpipe/ringpipe.h>

/* The cause that made a request slow. All bytes are zero without a cause. */
struct shop_slow {
	const char *cause;		/* NULL: none */
	uint64_t added_ns;
	uint64_t waited_ns;		/* of the thread for the database, before the request */
};

/*
 * Opens the log and a file for reads next to it, starts the threads and processes that cause the
 * delays, and gives the shop a real-time priority, so that other programs of the machine add no
 * causes of their own. Call it before the shop starts other threads, and shop_slow_stop() in each
 * case. Return: 0; -errno, with a sentence in `error`.
 */
int shop_slow_start(const char *log, char *error, size_t error_size);
void shop_slow_stop(void);

/* Causes the delay that the header asks for; without the log or a valid header, none. */
void shop_slow_down(struct shop_slow *slow, const char *header, const struct rp_activity *activity);

/* Writes the line of a request that was slowed, on its thread. */
void shop_slow_record(const struct shop_slow *slow, const struct rp_activity *activity,
		      uint64_t wall_ns);

#endif
