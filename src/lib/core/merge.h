/* SPDX-License-Identifier: MIT */
/* Merges the rings of a session into its sink. On the drain thread, or on that of a snapshot. */
#ifndef RP_CORE_MERGE_H
#define RP_CORE_MERGE_H

#include <stdint.h>

struct rp_clock_map;
struct rp_session;

/* Gives the sink what its sources hold up to `bound`. 0, -EAGAIN: some is left, or the sink's. */
int rp_session_merge(struct rp_session *session, uint64_t bound, struct rp_clock_map *map);

/* The output has all that was given out: records this for recovery, and then frees the space. */
void rp_session_publish(struct rp_session *session, const struct rp_clock_map *map);

/* Skips what is left in the rings. Return: the number of records. */
uint64_t rp_session_skip_rest(struct rp_session *session);

#endif
