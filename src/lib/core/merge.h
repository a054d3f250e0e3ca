/* SPDX-License-Identifier: MIT */
/*
 * Merge the rings of a session into its sink. On the drain thread, or on the thread of a snapshot.
 */
#ifndef RP_CORE_MERGE_H
#define RP_CORE_MERGE_H

#include <stdint.h>

struct rp_clock_map;
struct rp_session;

/*
 * Give the sink all records of the session's sources up to `bound`. Return: 0; -EAGAIN: some
 * records are left; or another error of the sink.
 */
int rp_session_merge(struct rp_session *session, uint64_t bound, struct rp_clock_map *map);

/*
 * Publish that the output contains all events given to it: record this for recovery, then free the
 * space.
 */
void rp_session_publish(struct rp_session *session, const struct rp_clock_map *map);

/* Skip the remaining records of the rings. Return: their number. */
uint64_t rp_session_skip_rest(struct rp_session *session);

#endif
