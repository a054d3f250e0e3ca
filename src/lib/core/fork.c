/* SPDX-License-Identifier: MIT */
/*
 * The engine across fork(2). Before this code runs in the child, the kernel has zeroed the slots,
 * and the child has no mapping of the rings. No event of the child can therefore enter a session of
 * the parent.
 */
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/ending.h"
#include "base/memory.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/def_table.h"
#include "core/drain.h"
#include "core/enable.h"
#include "core/exporter_set.h"
#include "core/fork.h"
#include "core/kernel_probes.h"
#include "core/provider_table.h"
#include "core/session_state.h"
#include "core/sites.h"
#include "recover/files.h"
#include "ring/slot.h"

/* The child does not inherit the rings. */
static void forget_rings(struct rp_session *session)
{
	for (uint32_t i = 0; i < session->source_count; i++)
		session->sources[i].ring = NULL;
	session->array.memory = NULL;
}

/* The parent's drain thread was freeing this memory, so the child neither uses nor frees it. */
static void forget_memory(struct rp_session *session)
{
	session->recovery = NULL;
	session->array.memory = NULL;
	session->sources = NULL;
	session->source_count = 0;
	session->active = NULL;
	session->rings = NULL;
	session->pool = NULL;
	session->pool_count = 0;
}

static void forget_session(struct rp_session *session)
{
	if (session->ended)
		forget_memory(session);
	/*
	 * Another thread of the parent may have been inside the sink. The child keeps the sink's
	 * memory and closes its descriptor.
	 */
	if (session->sink && rp_file_is(session->sink->fd, &session->sink->file))
		close(session->sink->fd);
	session->sink = NULL;
	rp_recovery_forget(session->recovery);
	session->recovery = NULL;
	forget_rings(session);
	if (session->state_rings)
		forget_rings(session->state_rings);
	session->state = RP_SESSION_ENDED;
	CDS_INIT_LIST_HEAD(&session->node);
}

void rp_core_fork_prepare(void)
{
	pthread_mutex_lock(&rp_core.lock);
	rp_memory_fork_prepare();
}

void rp_core_fork_parent(void)
{
	rp_memory_fork_done();
	pthread_mutex_unlock(&rp_core.lock);
}

void rp_core_fork_child(void)
{
	uint64_t gone = RP_OWN_BITS & ~rp_exporters_kernel_bits();
	struct rp_session *session, *next;
	struct rp_provider *provider;
	struct rp_site *site;

	rp_memory_fork_done();
	pthread_mutex_unlock(&rp_core.lock);
	rp_thread_forget_running();
	rp_ending_fork_child();
	pthread_cond_init(&rp_core.changed, NULL);
	cds_list_for_each_entry_safe(session, next, &rp_core.sessions, node)
		forget_session(session);
	CDS_INIT_LIST_HEAD(&rp_core.sessions);
	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		if (!pthread_equal(provider->caller, pthread_self()))
			provider->in_callback = false;
		/* An atomic `and`, because the kernel's semaphore counts in the upper 16 bits. */
		cds_list_for_each_entry(site, &provider->sites, node)
			rp_and_seq_cst(&site->event->enable, ~gone);
	}
	/* For kernels that did not zero the slots. */
	for (uint64_t slots = rp_core.slots_used; slots; slots &= slots - 1)
		memset(&rp_slots[__builtin_ctzll(slots)], 0, sizeof(*rp_slots));
	*rp_slots_generation() = 0;
	rp_core.session_count = 0;
	rp_core.slots_used = 0;
	rp_core.stack_slots = 0;
	rp_core.push_slots = 0;
	rp_and_seq_cst(&rp_slow_path_mask, ~RP_SESSION_BITS);
	rp_slow_path_changed();
	rp_thread_listens = false;
	rp_thread_is_ours = false;
	rp_drain_forget();
	rp_defs_reap(UINT64_MAX);
}
