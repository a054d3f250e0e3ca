/* SPDX-License-Identifier: MIT */
/* Writers that hold a fallback lock. */
#ifndef RP_CORE_HOLDERS_H
#define RP_CORE_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>

struct rp_session;

/*
 * Wait for writers that hold a fallback lock, and release the locks of writers that can never
 * return. The wait is at most 10 ms, and a later call does not wait again for the same holder. If
 * the session is `finishing`, the wait is up to a second longer, and the function then gives up the
 * rings of the locks that are still held.
 * Context: the drain thread.
 */
void rp_session_wait_for_holders(struct rp_session *session, bool finishing);

/*
 * Make the drain thread watch every lock that a writer may take. A writer that is delayed, or that
 * returns in a forked child, may have chosen its lock in an earlier session of the slot.
 */
void rp_session_watch_locks(struct rp_session *session);

/*
 * Wait for holders until `until_ns`, for a snapshot. Return: the number of holders that did not
 * release their locks.
 */
unsigned int rp_session_await_holders(const struct rp_session *session, uint64_t until_ns);

#endif
