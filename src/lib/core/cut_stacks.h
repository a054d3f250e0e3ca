/* SPDX-License-Identifier: MIT */
/*
 * Stacks that may end too early: the unwind rules of one of their functions were not cached yet. A
 * writer ends such a stack with RP_FRAME_CUT and asks for the rules; readers of the trace count
 * these frames. In its next pass the drain thread caches the rules that were asked for, and writes
 * the number of rules in an event StacksCut of provider `ringpipe`. Some of the stacks since
 * its previous pass may be cut.
 */
#ifndef RP_CORE_CUT_STACKS_H
#define RP_CORE_CUT_STACKS_H

struct rp_session;

/* On the drain thread: cache the rules that writers asked for, and count them. */
void rp_stacks_cache_fill(void);
/* Before the session is on: what was asked for until then is not about its stacks. */
void rp_stacks_begin(struct rp_session *session);
/* On the drain thread: report what was counted since. Return: 0, or what the sink returned. */
int rp_stacks_emit(struct rp_session *session);

#endif
