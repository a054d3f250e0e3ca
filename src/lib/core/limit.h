/* SPDX-License-Identifier: MIT */
/*
 * Events that are limited, one in so many or so many in a second. A definition has one limit for
 * all its sites and counts the events that it leaves out. Each session reports the growth since it
 * wanted the event.
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
	uint32_t one_in, per_second;	/* 0: all */
	uint64_t count;			/* offered */
	uint64_t window;		/* its second, and how many were written in it */
	uint64_t skipped;
	/* Each session accounts for the growth between these two. */
	struct {
		uint64_t reported;	/* UINT64_MAX: it never wanted the event */
		uint64_t until;		/* UINT64_MAX: it wants the event */
	} sessions[RP_SLOTS];
	struct rp_def *def;
	struct cds_list_head node;	/* in core.limits */
};

/* For a definition of `decl`. Return: 0, and NULL if the event has no limit; -ENOMEM. */
int rp_limit_create(const struct rp_event_decl *decl, struct rp_limit **ret_limit);
void rp_limit_destroy(struct rp_limit *limit);	/* NULL is fine */
bool rp_limit_is(const struct rp_limit *limit, const struct rp_event_decl *decl);

/* With the lock held: a session begins and wants nothing; it wants an event, or no longer. */
void rp_limits_begin(const struct rp_session *session);
void rp_limit_switch(struct rp_limit *limit, const struct rp_session *session, bool on);

/* How many events were skipped that the session wanted and did not report. With the lock held. */
uint64_t rp_limits_unreported(const struct rp_session *session);

/* Emits what was skipped since the last call. As rp_session_emit(), without the lock. */
int rp_limits_emit(struct rp_session *session);

#endif
