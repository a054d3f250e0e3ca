/* SPDX-License-Identifier: MIT */
/*
 * The engine across fork. Before any of this runs in the child, the kernel has wiped the slots and
 * left out the rings: no event of the child can go to a session of the parent.
 */
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "core/core.h"
#include "recover/keep.h"

/* They are not inherited. */
static void forget_rings(struct rp_session *session)
{
	for (uint32_t i = 0; i < session->source_count; i++)
		session->sources[i].ring = NULL;
}

static void forget_session(struct rp_session *session)
{
	/*
	 * The sink was perhaps in the middle of something: its memory stays, its descriptor goes.
	 */
	if (session->sink && rp_file_is(session->sink->fd, &session->sink->file))
		close(session->sink->fd);
	session->sink = NULL;
	rp_keep_forget(session->keep);
	session->keep = NULL;
	forget_rings(session);
	if (session->kept)
		forget_rings(session->kept);
	session->state = RP_SESSION_ENDED;
	CDS_INIT_LIST_HEAD(&session->node);
}

void rp_core_fork_prepare(void)
{
	pthread_mutex_lock(&rp_core.lock);
}

void rp_core_fork_parent(void)
{
	pthread_mutex_unlock(&rp_core.lock);
}

void rp_core_fork_child(void)
{
	uint64_t gone = RP_OWN_BITS & ~rp_exporters_kernel_bits();
	struct rp_session *session, *next;
	struct rp_provider *provider;
	struct rp_site *site;

	pthread_mutex_unlock(&rp_core.lock);
	pthread_cond_init(&rp_core.changed, NULL);
	cds_list_for_each_entry_safe(session, next, &rp_core.sessions, node)
		forget_session(session);
	CDS_INIT_LIST_HEAD(&rp_core.sessions);
	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		if (!pthread_equal(provider->caller, pthread_self()))
			provider->in_callback = false;
		/* Not a store: the kernel's semaphore counts in the top 16 bits. */
		cds_list_for_each_entry(site, &provider->sites, node)
			rp_and_seq_cst(&site->event->enable, ~gone);
	}
	memset(rp_slots, 0, RP_SLOTS_GENERATION_AT + sizeof(uint64_t));
	rp_core.session_count = 0;
	rp_core.slots_used = 0;
	rp_core.stack_slots = 0;
	rp_core.push_slots = 0;
	rp_and_seq_cst(&rp_special_slots, ~RP_SESSION_BITS);
	rp_special_changed();
	rp_thread_listens = false;
	rp_thread_is_ours = false;
	rp_drain_forget();
	rp_defs_reap(UINT64_MAX);
}
