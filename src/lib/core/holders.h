/* SPDX-License-Identifier: MIT */
/* Writers that hold a fallback lock. */
#ifndef RP_CORE_HOLDERS_H
#define RP_CORE_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>

struct rp_session;

/*
 * Wait for writers that hold a fallback lock, and release the locks of writers that can never
 * return. The wait is 10 ms in a running session, once for each holder. It is up to a second longer
 * if the session is `finishing`; then the function gives up the rings of the locks still held.
 * Context: the drain thread.
 */
void rp_session_wait_for_holders(struct rp_session *session, bool finishing);

/*
 * Wait for holders until `until_ns`, for a snapshot. Return: the number of holders that did not
 * release their locks.
 */
unsigned int rp_session_await_holders(const struct rp_session *session, uint64_t until_ns);

#endif
