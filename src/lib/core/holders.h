/* SPDX-License-Identifier: MIT */
/* Writers that hold a fallback lock. */
#ifndef RP_CORE_HOLDERS_H
#define RP_CORE_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>

struct rp_session;

/* Waits for writers that hold a fallback lock, and releases it for those that are gone. */
void rp_session_wait_for_holders(struct rp_session *session, bool finishing);
/* For a snapshot. Return: how many did not release it until then. */
unsigned int rp_session_await_holders(const struct rp_session *session, uint64_t until_ns);

#endif
