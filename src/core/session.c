/* SPDX-License-Identifier: MIT */
/*
 * Sessions begin and end. What happens in between is the drain thread's: drain.c and merge.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/thread.h"
#include "core/activity.h"
#include "core/core.h"
#include "core/session.h"

#define BUFFER_DEFAULT (64u << 20)
#define PROVIDERS_MAX 1000u
#define FINISH_NS 2000000000u

struct rp_core rp_core = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.providers = CDS_LIST_HEAD_INIT(rp_core.providers),
	.sessions = CDS_LIST_HEAD_INIT(rp_core.sessions),
	.retired = CDS_LIST_HEAD_INIT(rp_core.retired),
	.next_index = RP_DEF_OWN_INDEX + 1,
	.next_serial = 1,
};

static int init_result;

static void init_once(void)
{
	rp_clock_init(secure_getenv("RINGPIPE_CLOCK"));
	rp_thread_init();
	rp_activity_init();
	init_result = rp_slots_init();
}

int rp_core_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
	return init_result;
}

uint64_t rp_session_next_id(void)
{
	return rp_add_relaxed(&rp_core.next_session_id, 1) + 1;
}

uint64_t rp_session_id(const struct rp_session *session)
{
	return session->id;
}

/* Bytes past what this library knows must be zero: a newer caller asks for something it lacks. */
static bool tail_is_zero(const void *options, uint32_t size, size_t known)
{
	for (size_t i = known; i < size; i++) {
		if (((const char *)options)[i] != 0)
			return false;
	}
	return size >= known;
}

static void free_configs(struct rp_config *configs, size_t count)
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

static int copy_filter(struct rp_config *config, const struct rp_event_filter *filter)
{
	if (!tail_is_zero(filter, filter->size, sizeof(*filter)) ||
	    (filter->id_count && !filter->ids))
		return -EINVAL;
	config->ids = calloc(filter->id_count ? filter->id_count : 1, sizeof(*config->ids));
	if (!config->ids)
		return -ENOMEM;
	if (filter->id_count)
		memcpy(config->ids, filter->ids, filter->id_count * sizeof(*config->ids));
	qsort(config->ids, filter->id_count, sizeof(*config->ids), compare_ids);
	config->id_count = filter->id_count;
	config->has_filter = true;
	config->filter_enable = filter->enable;
	return 0;
}

static int copy_config(struct rp_config *config, const struct rp_session_provider *provider)
{
	if (!tail_is_zero(provider, provider->size, sizeof(*provider)) ||
	    !rp_text_is_name(provider->name) || provider->level > RP_LEVEL_VERBOSE)
		return -EINVAL;
	config->name = rp_text_copy(provider->name);
	config->filter_data = rp_text_copy(provider->filter_data);
	config->keywords = provider->keywords;
	config->level = provider->level;
	if (!config->name || (provider->filter_data && !config->filter_data))
		return -ENOMEM;
	return provider->filter ? copy_filter(config, provider->filter) : 0;
}

static int copy_options(struct rp_session *session, const struct rp_session_options *options)
{
	const char *name = options->name ? options->name : "session";
	int ret = 0;

	if (!rp_text_is_name(name) || options->provider_count == 0 || !options->providers ||
	    options->provider_count > PROVIDERS_MAX || options->reserved != 0 ||
	    (options->flags & ~(RP_SESSION_STACKS | RP_SESSION_CAUSAL)))
		return -EINVAL;
	session->flags = options->flags;
	session->budget_bytes = options->buffer_bytes ? options->buffer_bytes : BUFFER_DEFAULT;
	if (session->budget_bytes < RP_SESSION_BUFFER_MIN)
		return -EINVAL;
	session->name = rp_text_copy(name);
	session->configs = calloc(options->provider_count, sizeof(*session->configs));
	if (!session->name || !session->configs)
		return -ENOMEM;
	session->config_count = options->provider_count;
	for (size_t i = 0; ret == 0 && i < options->provider_count; i++)
		ret = copy_config(&session->configs[i], &options->providers[i]);
	return ret;
}

void rp_session_free(struct rp_session *session)
{
	if (!session)
		return;
	rp_session_free_rings(session);
	free_configs(session->configs, session->config_count);
	free(session->name);
	free(session);
}

static int make_session(const struct rp_session_setup *setup, struct rp_session **ret_session)
{
	struct rp_session *session;
	int ret;

	if (!tail_is_zero(setup->options, setup->options->size, sizeof(*setup->options)))
		return -EINVAL;
	session = calloc(1, sizeof(*session));
	if (!session)
		return -ENOMEM;
	ret = copy_options(session, setup->options);
	if (ret == 0)
		ret = rp_session_make_fallbacks(session);
	if (ret != 0) {
		rp_session_free(session);
		return ret;
	}
	session->id = setup->id ? setup->id : rp_session_next_id();
	session->sink = setup->sink;
	session->patient = setup->sink->patient;
	session->on_end = setup->on_end;
	session->last_ns = rp_clock_monotonic_ns();
	session->last_point_ns = session->last_ns;
	session->data = setup->data;
	*ret_session = session;
	return 0;
}

/* Fills the slot, then lets writers see it; the order of slot.h. */
static void put_on(struct rp_session *session)
{
	struct rp_slot *slot = &rp_slots[session->slot];
	uint64_t bit = 1ull << session->slot;

	rp_core.generation++;
	rp_store_relaxed(&slot->ring_count, session->ring_count);
	rp_store_relaxed(&slot->wanted, 0);
	rp_store_relaxed(&slot->busy, rp_core.generation << 40);
	rp_store_relaxed(&slot->too_big, rp_core.generation << 40);
	for (uint32_t i = 0; i < session->fallback_count; i++) {
		struct rp_fallback *fallback = &slot->fallback[i];

		/* Its holder may come back any time, and nobody would wait for it: no ring here. */
		if (fallback->left == 0 || rp_load_acquire(&fallback->lock) != fallback->left)
			rp_store_release(&fallback->ring, session->sources[i].ring);
	}
	rp_store_release(&slot->rings, session->rings);
	if (session->flags & RP_SESSION_STACKS)
		rp_or_seq_cst(&rp_core.stack_slots, bit);
	if (session->flags & RP_SESSION_CAUSAL)
		rp_or_seq_cst(&rp_core.causal_slots, bit);
	rp_or_seq_cst(&rp_core.special_slots, session->flags ? bit : 0);
	rp_fence_heavy();
	rp_session_switch(session, true);
}

void rp_session_take_off(struct rp_session *session)
{
	struct rp_slot *slot = &rp_slots[session->slot];
	uint64_t bit = 1ull << session->slot;

	session->state = RP_SESSION_FINISHING;
	session->deadline_ns = rp_clock_monotonic_ns() + FINISH_NS;
	rp_session_switch(session, false);
	rp_and_seq_cst(&rp_core.stack_slots, ~bit);
	rp_and_seq_cst(&rp_core.causal_slots, ~bit);
	rp_and_seq_cst(&rp_core.special_slots, ~bit);
	rp_store_release(&slot->rings, NULL);
	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		rp_store_release(&slot->fallback[i].ring, NULL);
	rp_fence_heavy();
}

/* A free slot, if possible one whose fallback locks no writer took with it. */
static uint32_t choose_slot(uint64_t free_slots)
{
	for (uint64_t slots = free_slots; slots; slots &= slots - 1) {
		uint32_t slot = (uint32_t)__builtin_ctzll(slots);
		unsigned int left = 0;

		for (unsigned int i = 0; i < RP_FALLBACKS; i++)
			left += rp_slots[slot].fallback[i].left != 0;
		if (left == 0)
			return slot;
	}
	return (uint32_t)__builtin_ctzll(free_slots);
}

static int admit(struct rp_session *session)
{
	uint64_t free_slots = ~rp_core.slots_used & RP_SESSION_BITS;
	int ret;

	if (!free_slots)
		return -ENOSPC;
	ret = rp_drain_start();
	if (ret != 0)
		return ret;
	session->slot = choose_slot(free_slots);
	rp_core.slots_used |= 1ull << session->slot;
	rp_core.session_count++;
	cds_list_add_tail(&session->node, &rp_core.sessions);
	put_on(session);
	rp_notices_add(session, true);
	return 0;
}

int rp_session_open(const struct rp_session_setup *setup, struct rp_session **ret_session)
{
	struct rp_session *session;
	int ret = rp_core_init();

	if (ret == 0)
		ret = make_session(setup, &session);
	if (ret != 0)
		return ret;
	pthread_mutex_lock(&rp_core.lock);
	ret = admit(session);
	pthread_mutex_unlock(&rp_core.lock);
	if (ret != 0) {
		rp_session_free(session);
		return ret;
	}
	*ret_session = session;
	rp_drain_wake();
	rp_notices_run();
	return 0;
}

void rp_session_finish(struct rp_session *session)
{
	bool first;

	pthread_mutex_lock(&rp_core.lock);
	first = session->state == RP_SESSION_RUNNING;
	if (first) {
		rp_session_take_off(session);
		rp_notices_add(session, false);
	}
	pthread_mutex_unlock(&rp_core.lock);
	rp_drain_wake();
	if (first)
		rp_notices_run();
}

void rp_session_discard(struct rp_session *session)
{
	pthread_mutex_lock(&rp_core.lock);
	session->discard = true;
	pthread_mutex_unlock(&rp_core.lock);
	rp_session_finish(session);
}

static void copy_stats(struct rp_session_stats *to, const struct rp_session_stats *from)
{
	uint32_t size = to->size < sizeof(*from) ? to->size : (uint32_t)sizeof(*from);

	memcpy(to, from, size);
	to->size = size;
}

RP_PUBLIC int rp_session_stats(struct rp_session *session, struct rp_session_stats *ret_stats)
{
	if (!session || ret_stats->size < sizeof(uint32_t))
		return -EINVAL;
	pthread_mutex_lock(&rp_core.lock);
	copy_stats(ret_stats, &session->stats);
	pthread_mutex_unlock(&rp_core.lock);
	return 0;
}

RP_PUBLIC int rp_session_stop(struct rp_session *session, struct rp_session_stats *ret_stats)
{
	int ret;

	if (!session)
		return 0;
	if (rp_drain_is_self())
		return -EDEADLK;
	rp_session_finish(session);
	pthread_mutex_lock(&rp_core.lock);
	while (session->state != RP_SESSION_ENDED)
		pthread_cond_wait(&rp_core.changed, &rp_core.lock);
	cds_list_del(&session->node);
	if (ret_stats)
		copy_stats(ret_stats, &session->stats);
	ret = session->stats.error;
	pthread_mutex_unlock(&rp_core.lock);
	rp_session_free(session);
	return ret;
}

/* A session in that state which an end of the process should complete, or NULL. With the lock. */
static struct rp_session *impatient(enum rp_session_state state)
{
	struct rp_session *session;

	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		if (session->state == state && !session->patient)
			return session;
	}
	return NULL;
}

void rp_sessions_finish_all(void)
{
	struct rp_session *session;

	if (rp_drain_is_self())
		return;
	pthread_mutex_lock(&rp_core.lock);
	while ((session = impatient(RP_SESSION_RUNNING)) != NULL)
		rp_session_take_off(session);
	pthread_mutex_unlock(&rp_core.lock);
	rp_drain_wake();
	pthread_mutex_lock(&rp_core.lock);
	while (impatient(RP_SESSION_FINISHING))
		pthread_cond_wait(&rp_core.changed, &rp_core.lock);
	pthread_mutex_unlock(&rp_core.lock);
}

/* One row of rp_enabled_list(), copied so that the callback runs without the lock. */
struct enabled_row {
	struct rp_enabled enabled;
	char *provider, *session, *filter;
};

struct enabled_rows {
	struct enabled_row *rows;
	size_t count, room;
};

static uint32_t count_events(const struct rp_provider *provider, const struct rp_config *config)
{
	struct rp_site *site;
	uint32_t count = 0;

	cds_list_for_each_entry(site, &provider->sites, node)
		count += config && rp_config_wants(config, &site->def->public);
	return count;
}

static int add_row(struct enabled_rows *rows, const struct rp_provider *provider,
		   const struct rp_session *session, const struct rp_config *config)
{
	struct enabled_row *row;

	if (rows->count == rows->room) {
		size_t room = rows->room ? 2 * rows->room : 32;
		struct enabled_row *grown = realloc(rows->rows, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		rows->rows = grown;
		rows->room = room;
	}
	row = &rows->rows[rows->count];
	memset(row, 0, sizeof(*row));
	row->provider = rp_text_copy(provider->name);
	row->session = session ? rp_text_copy(session->name) : NULL;
	row->filter = config ? rp_text_copy(config->filter_data) : NULL;
	row->enabled.size = sizeof(row->enabled);
	row->enabled.provider = row->provider;
	row->enabled.event_count = count_events(provider, config);
	if (session) {
		row->enabled.session_id = session->id;
		row->enabled.session_name = row->session;
		row->enabled.keywords = config->keywords;
		row->enabled.level = config->level;
		row->enabled.filter_data = row->filter;
	}
	rows->count++;
	return row->provider && (!session || row->session) ? 0 : -ENOMEM;
}

static int collect_rows(struct enabled_rows *rows)
{
	struct rp_provider *provider;
	struct rp_session *session;
	int ret = 0;

	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		bool any = false;

		cds_list_for_each_entry(session, &rp_core.sessions, node) {
			const struct rp_config *config = rp_session_config(session,
									   provider->name);

			if (session->state != RP_SESSION_RUNNING || !config)
				continue;
			any = true;
			ret = add_row(rows, provider, session, config);
			if (ret != 0)
				return ret;
		}
		if (!any)
			ret = add_row(rows, provider, NULL, NULL);
		if (ret != 0)
			return ret;
	}
	return 0;
}

RP_PUBLIC int rp_enabled_list(int (*row)(const struct rp_enabled *enabled, void *data), void *data)
{
	struct enabled_rows rows = { 0 };
	int ret;

	pthread_mutex_lock(&rp_core.lock);
	ret = collect_rows(&rows);
	pthread_mutex_unlock(&rp_core.lock);
	for (size_t i = 0; i < rows.count; i++) {
		if (ret == 0)
			ret = row(&rows.rows[i].enabled, data);
		free(rows.rows[i].provider);
		free(rows.rows[i].session);
		free(rows.rows[i].filter);
	}
	free(rows.rows);
	return ret;
}
