/* SPDX-License-Identifier: MIT */
/*
 * Stacks that may end too early, because the unwind rules of a function were not cached yet. The
 * writer ends such a stack with RP_FRAME_CUT and requests the rules. Readers of the trace count
 * these frames. In its next pass, the drain thread caches the requested rules. It writes their
 * number in an event StacksCut of the provider `ringpipe`: some stacks since its previous pass may
 * be cut.
 */
#ifndef RP_CORE_CUT_STACKS_H
#define RP_CORE_CUT_STACKS_H

#include <stdbool.h>

struct rp_session;

/* Cache the rules that writers requested, and count them. On the drain thread. Return: if any. */
bool rp_stacks_cache_fill(void);
/* Start to count for a session. Call it before the session's events are enabled. */
void rp_stacks_begin(struct rp_session *session);
/*
 * Report the rules that were counted since the last report. On the drain thread. Return: 0, or the
 * error of the sink.
 */
int rp_stacks_emit(struct rp_session *session);

#endif
