/* SPDX-License-Identifier: MIT */
/*
 * Compute the bits of enable words from the providers of the sessions. All functions need the lock,
 * except those that copy options.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sized.h"
#include "base/text.h"
#include "core/buffers.h"
#include "core/core.h"
#include "core/cut_stacks.h"
#include "core/def_table.h"
#include "core/enable.h"
#include "core/holders.h"
#include "core/kernel_probes.h"
#include "core/keys.h"
#include "core/limit.h"
#include "core/missing.h"
#include "core/provider_table.h"
#include "core/session_pass.h"
#include "core/session_state.h"
#include "core/sites.h"
#include "core/wait.h"
#include "recover/files.h"
#include "ring/slot.h"

void rp_configs_free(struct rp_config *configs, size_t count)
{
	for (size_t i = 0; configs && i < count; i++) {
		free(configs[i].name);
		free(configs[i].filter_data);
		free(configs[i].ids);
	}
	free(configs);
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static int copy_filter(struct rp_config *config, const struct rp_event_filter *given)
{
	static const uint8_t none[sizeof(given->reserved)];
	struct rp_event_filter filter;

	if (rp_sized_read(&filter, sizeof(filter), RP_EVENT_FILTER_SIZE_V1, given) != 0 ||
	    memcmp(filter.reserved, none, sizeof(none)) != 0 || (filter.id_count && !filter.ids))
		return -EINVAL;
	config->ids = calloc(filter.id_count ? filter.id_count : 1, sizeof(*config->ids));
	if (!config->ids)
		return -ENOMEM;
	if (filter.id_count)
		memcpy(config->ids, filter.ids, filter.id_count * sizeof(*config->ids));
	qsort(config->ids, filter.id_count, sizeof(*config->ids), compare_ids);
	config->id_count = filter.id_count;
	config->has_filter = true;
	config->filter_enable = filter.enable;
	return 0;
}

int rp_config_copy(struct rp_config *config, const struct rp_session_provider *provider)
{
	static const uint8_t none[sizeof(provider->reserved)];
	const bool is_exact = provider->flags & RP_SESSION_PROVIDER_EXACT;

	if ((provider->flags & ~RP_SESSION_PROVIDER_EXACT) ||
	    memcmp(provider->reserved, none, sizeof(none)) != 0 ||
	    !rp_text_is_name(provider->name) || provider->level > RP_LEVEL_VERBOSE)
		return -EINVAL;
	config->name = rp_text_copy(provider->name);
	config->filter_data = rp_text_copy(provider->filter_data);
	config->keywords = provider->keywords || is_exact ? provider->keywords : UINT64_MAX;
	config->level = provider->level;
	if (!config->name || (provider->filter_data && !config->filter_data))
		return -ENOMEM;
	return provider->filter ? copy_filter(config, provider->filter) : 0;
}

const struct rp_config *rp_session_config(const struct rp_session *session,
					  const struct rp_provider *provider)
{
	const struct rp_config *catch_all = NULL;

	rp_missing_note(session, provider);
	for (size_t i = 0; i < session->config_count; i++) {
		const struct rp_config *config = &session->configs[i];

		if (strcmp(config->name, provider->name) == 0)
			return config;
		if (!catch_all && !provider->by_name && strcmp(config->name, "*") == 0)
			catch_all = config;
	}
	return catch_all;
}

bool rp_config_wants(const struct rp_config *config, const struct rp_event_def *def)
{
	if (def->keywords != 0 && (def->keywords & config->keywords) == 0)
		return false;
	if (def->level != 0 && config->level != 0 && config->level < def->level)
		return false;
	if (config->wants && !config->wants(def, config->wants_data))
		return false;
	if (!config->has_filter)
		return true;
	return config->filter_enable ==
	       (bsearch(&def->id, config->ids, config->id_count, sizeof(def->id), compare_ids) !=
		NULL);
}

/*
 * Store the definition for recovery before the event is enabled, so that a recovered event has one.
 */
static void store_definition(const struct rp_session *session, const struct rp_event_def *def)
{
	const struct rp_definition definition = rp_event_def_plain(def);

	if (session->recovery)
		rp_recovery_define(session->recovery, def->index, def->serial, &definition);
}

/*
 * Return the bit by which the session gets the event. State events go to the rings that are never
 * overwritten.
 */
static uint64_t bit_for(const struct rp_session *session, const struct rp_event_def *def)
{
	bool is_state = session->state_rings && (def->flags & RP_EVENT_STATE);

	return 1ull << (is_state ? session->state_rings->slot : session->slot);
}

uint64_t rp_site_session_bits(const struct rp_site *site)
{
	struct rp_session *session;
	uint64_t bits = 0;

	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		const struct rp_config *config = rp_session_config(session, site->provider);

		if (session->state != RP_SESSION_RUNNING || !config ||
		    !rp_config_wants(config, &site->def->public))
			continue;
		store_definition(session, &site->def->public);
		rp_limit_switch(site->def->limit, session, true);
		bits |= bit_for(session, &site->def->public);
	}
	return bits;
}

void rp_session_switch(struct rp_session *session, bool on)
{
	struct rp_provider *provider;
	struct rp_site *site;

	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		const struct rp_config *config = on ? rp_session_config(session, provider) : NULL;

		cds_list_for_each_entry(site, &provider->sites, node) {
			uint64_t *enable = &site->event->enable;
			uint64_t bit = bit_for(session, &site->def->public);
			bool wants = config && rp_config_wants(config, &site->def->public);

			rp_limit_switch(site->def->limit, session, wants);
			if (wants) {
				store_definition(session, &site->def->public);
				rp_or_seq_cst(enable, bit);
			} else if (rp_load_relaxed(enable) & bit) {
				rp_and_seq_cst(enable, ~bit);	/* [SLOT-BIT] */
			}
		}
	}
	if (on)
		rp_keys_settle();
	/* Wake writers that wait to write events that the session no longer wants. */
	rp_wait_wake(&rp_slots[session->slot]);
}

/*
 * Move to a generation that is in no thread's ring cache. That includes the caches of the process
 * from which this one was forked, where writers have increased the generation since
 * (ring/write_rseq.c).
 */
static void move_generation(void)
{
	uint64_t *generation = rp_slots_generation(), before = rp_load_relaxed(generation), next;

	do {
		next = rp_core.generation << 32 > before ? rp_core.generation << 32 : before + 1;
	} while (!rp_cas_seq_cst(generation, &before, next));	/* [SLOT-AGE] */
}

/*
 * Set the rings of the fallback locks. A holder may have claimed a buffer while its session ended,
 * so the ring that it set is removed. A lock whose holder was given up gets no ring, because that
 * holder may return at any time.
 */
static void fill_fallbacks(const struct rp_session *session, struct rp_slot *slot)
{
	for (uint32_t i = 0; i < RP_FALLBACKS_MAX; i++) {
		struct rp_fallback *fallback = &slot->fallback[i];
		uint64_t left = rp_load_relaxed(&fallback->left);
		bool fixed = session->pool_count == 0 && i < session->fallback_count &&
			     (left == 0 || rp_load_acquire(&fallback->lock) != left);

		rp_store_release(&fallback->ring, fixed ? session->sources[i].ring : NULL);
	}
}

static void fill_slot(struct rp_session *session, uint32_t flags)
{
	struct rp_slot *slot = &rp_slots[session->slot];

	rp_core.generation++;
	rp_store_relaxed(&slot->ring_count, session->ring_count);
	rp_store_relaxed(&slot->wanted, 0);
	rp_store_relaxed(&slot->busy, rp_core.generation << 40);
	rp_store_relaxed(&slot->too_big, rp_core.generation << 40);
	rp_store_relaxed(&slot->blocked, rp_core.generation << 40);
	rp_store_relaxed(&slot->full, rp_core.generation << 40);
	rp_store_relaxed(&slot->wait_ns, session->wait_ns);
	rp_store_relaxed(&slot->clock, flags & RP_SESSION_COARSE ? RP_SLOT_CLOCK_COARSE :
			 flags & RP_SESSION_CAUSAL ? RP_SLOT_CLOCK_CAUSAL : RP_SLOT_CLOCK_TICKS);
	if (flags & RP_SESSION_COARSE)
		rp_clock_coarse_move(rp_clock_ticks_ordered());
	/* Only an overwriting session has rings of fixed sizes; its ids have larger ones. */
	rp_store_relaxed(&slot->section_step, session->flags & RP_SESSION_OVERWRITE ?
			 session->ring_bytes / RP_RING_SUBBUFS : 0);
	fill_fallbacks(session, slot);
	rp_store_relaxed(&slot->lock_count, RP_FALLBACKS);
	rp_session_watch_locks(session);
	rp_session_open_pool(session);
	rp_store_release(&slot->rings, session->rings);
	move_generation();
}

/* Fill the slots, then let writers see them, in the order that slot.h describes. */
void rp_session_attach(struct rp_session *session)
{
	uint64_t bits = session->slots;

	rp_stacks_begin(session);
	fill_slot(session, session->flags);
	if (session->state_rings)
		fill_slot(session->state_rings, session->flags);
	if (session->flags & RP_SESSION_STACKS)
		rp_or_seq_cst(&rp_core.stack_slots, bits);
	if (session->sink->pushes)
		rp_or_seq_cst(&rp_core.push_slots, bits);
	if ((session->flags & RP_SESSION_STACKS) || session->sink->pushes)
		rp_or_seq_cst(&rp_slow_path_mask, bits);
	rp_slow_path_changed();
	rp_fence_heavy();
	rp_limits_begin(session);
	rp_session_switch(session, true);
}

static void empty_slot(const struct rp_session *session)
{
	struct rp_slot *slot = &rp_slots[session->slot];

	rp_store_release(&slot->rings, NULL);
	for (unsigned int i = 0; i < RP_FALLBACKS_MAX; i++)
		rp_store_release(&slot->fallback[i].ring, NULL);
}

void rp_session_detach(struct rp_session *session)
{
	uint64_t bits = session->slots;

	session->state = RP_SESSION_FINISHING;
	session->finish.checked_ns = rp_clock_monotonic_ns();
	rp_session_switch(session, false);
	rp_and_seq_cst(&rp_core.stack_slots, ~bits);
	rp_and_seq_cst(&rp_core.push_slots, ~bits);
	rp_and_seq_cst(&rp_slow_path_mask, ~bits);
	rp_slow_path_changed();
	empty_slot(session);
	if (session->state_rings)
		empty_slot(session->state_rings);
	/* Wake snapshots that wait for the session's first pass. */
	pthread_cond_broadcast(&rp_core.changed);
}
