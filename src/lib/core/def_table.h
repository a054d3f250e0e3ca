/* SPDX-License-Identifier: MIT */
/* Definitions of events. All functions need the lock, unless they state otherwise. */
#ifndef RP_CORE_DEF_TABLE_H
#define RP_CORE_DEF_TABLE_H

#include <stdint.h>

#include <ringpipe/event.h>
#include <urcu/list.h>

#include "base/chains.h"
#include "core/event_def.h"

struct rp_limit;

/*
 * A definition, shared by all sites with the same declaration. It is kept until no ring can contain
 * its index.
 */
struct rp_def {
	struct rp_event_def public;
	struct rp_chain_node chain;	/* in core.definitions */
	struct cds_list_head retired;	/* in core.retired, once refs is 0 */
	uint64_t retired_pass;
	uint32_t refs;			/* sites */
	uint32_t pins;			/* see rp_def_pin() */
	struct rp_limit *limit;		/* or NULL */
};

/*
 * Copy a declaration, with its id derived from the name if it asks for that. Without the lock.
 * Return: 0; -EINVAL: no event can be made of it.
 */
int rp_event_decl_read(struct rp_event_decl *ret_decl, const struct rp_event_decl *decl);

/* `decl` is from rp_event_decl_read(). */
int rp_def_get(const char *provider, const struct rp_event_decl *decl, struct rp_def **ret_def);
void rp_def_put(struct rp_def *def);
void rp_defs_reap(uint64_t passed);			/* frees definitions retired before */

#endif
