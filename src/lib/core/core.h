/* SPDX-License-Identifier: MIT */
/*
 * The state of the engine, and its lock.
 *
 * One mutex, rp_core.lock, guards the complete state, except the members that belong to the drain
 * thread here and in struct rp_session. No thread holds it across a callback, a blocking system
 * call, or a wait, so the fork handlers may take it.
 */
#ifndef RP_CORE_CORE_H
#define RP_CORE_CORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <urcu/list.h>

#include "base/atomic.h"
#include "base/chains.h"
#include "core/exporter_set.h"

struct rp_def;

#define RP_DEF_CHUNK 1024u
#define RP_DEF_CHUNKS 1024u

struct rp_core {
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* a session, a callback or a thread changed state */
	struct cds_list_head providers;
	struct cds_list_head sessions;
	uint32_t session_count;
	uint64_t slots_used;		/* bit mask */
	uint64_t generation;		/* of session slots */
	uint64_t next_session_id;
	uint64_t stack_slots;		/* slots whose session wants stacks */
	uint64_t push_slots;		/* slots whose session belongs to a push listener */

	/* event.c */
	struct rp_chains definitions;
	struct rp_chains sites;		/* by provider and event id */
	struct rp_def **chunks[RP_DEF_CHUNKS];	/* by index; the drain thread reads without lock */
	uint32_t next_index;
	uint32_t *free_indexes;
	size_t free_count, free_capacity;
	uint64_t next_serial;
	struct cds_list_head retired;
	uint32_t secret_events;		/* dynamic events with secrets */
	struct cds_list_head limits;
	uint32_t limit_count;

	uint64_t past_delivered, past_lost;	/* by sessions that no longer exist */
	void (*watcher)(void);		/* set while the library is loaded: rp_core_watch() */

	/* exporters.c */
	struct rp_exporter exporters[RP_EXPORTERS_MAX];
	uint32_t exporter_count;
	struct cds_list_head unreported;	/* sites not yet announced to exporters */

	/* drain.c */
	uint64_t pass;			/* drain passes begun */
	uint64_t pass_ns;		/* when the last one ended */
	uint32_t work;			/* work for the drain thread; under no lock */
};

extern struct rp_core rp_core;

/* Return a new id for a session, an exporter, or another source of enabled events. */
static inline uint64_t rp_core_next_id(void)
{
	return rp_add_relaxed(&rp_core.next_session_id, 1) + 1;
}

/*
 * Whether the thread runs a listener's callback. Its events do not go to push listeners, and it
 * does not wait for the callback of a provider. initial-exec, because signal handlers write events.
 */
extern __thread bool rp_thread_listens __attribute__((tls_model("initial-exec")));

/* Initialise the engine once; later calls are cheap. Return: 0 or -errno. */
int rp_core_init(void);

#endif
