/* SPDX-License-Identifier: MIT */
/*
 * Limits of events: one in N, or N per second. A definition has one limit for all its sites, and
 * counts the events that the limit skips. Each session reports the skipped events of the time in
 * which it wants the event.
 */
#ifndef RP_CORE_LIMIT_H
#define RP_CORE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/event.h>
#include <urcu/list.h>

#include "ring/slot.h"

struct rp_def;
struct rp_session;

struct rp_limit {
	uint32_t one_in, per_second;	/* 0: no limit */
	uint64_t count;			/* events offered */
	uint64_t window;		/* the current second, and its number of events */
	uint64_t skipped;
	/* Each session reports the growth of `skipped` between these two values. */
	struct {
		uint64_t reported;	/* UINT64_MAX: it never wanted the event */
		uint64_t until;		/* UINT64_MAX: it wants the event */
	} sessions[RP_SLOTS];
	struct rp_def *def;
	struct cds_list_head node;	/* in core.limits */
};

/*
 * Create the limit for a definition of `decl`. Return: 0, with NULL in *ret_limit if the event has
 * no limit; -ENOMEM: no memory.
 */
int rp_limit_create(const struct rp_event_decl *decl, struct rp_limit **ret_limit);
void rp_limit_destroy(struct rp_limit *limit);	/* NULL is allowed */
bool rp_limit_is(const struct rp_limit *limit, const struct rp_event_decl *decl);

/*
 * With the lock held: note that a session begins and wants no event yet; note that it starts or
 * stops wanting the event.
 */
void rp_limits_begin(const struct rp_session *session);
void rp_limit_switch(struct rp_limit *limit, const struct rp_session *session, bool on);

/* Return the number of skipped events that the session wanted. With the lock held. */
uint64_t rp_limits_skipped(const struct rp_session *session);

/*
 * Emit the events skipped since the last call. A snapshot emits what its session would, which
 * still emits it, too. Return: as rp_session_emit(). Without the lock.
 */
int rp_limits_emit(struct rp_session *session);

#endif
