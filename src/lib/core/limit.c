/* SPDX-License-Identifier: MIT */
#include "core/limit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/def_table.h"
#include "core/session_emit.h"
#include "core/session_state.h"
#include "core/sites.h"

/*
 * The word of a window: the second in the upper bits, the number of its events in the lower bits.
 */
#define COUNT_BITS 32u
#define COUNT_MASK ((1ull << COUNT_BITS) - 1)

int rp_limit_create(const struct rp_event_decl *decl, struct rp_limit **ret_limit)
{
	struct rp_limit *limit = NULL;

	if (decl->one_in > 1 || decl->per_second) {
		limit = calloc(1, sizeof(*limit));
		if (!limit)
			return -ENOMEM;
		limit->one_in = decl->one_in;
		limit->per_second = decl->per_second;
		memset(limit->sessions, 0xff, sizeof(limit->sessions));
		CDS_INIT_LIST_HEAD(&limit->node);
	}
	*ret_limit = limit;
	return 0;
}

void rp_limit_destroy(struct rp_limit *limit)
{
	if (!limit)
		return;
	if (!cds_list_empty(&limit->node)) {
		cds_list_del(&limit->node);
		rp_store_relaxed(&rp_core.limit_count, rp_core.limit_count - 1);
	}
	free(limit);
}

bool rp_limit_is(const struct rp_limit *limit, const struct rp_event_decl *decl)
{
	if (!limit)
		return decl->one_in <= 1 && decl->per_second == 0;
	return limit->one_in == decl->one_in && limit->per_second == decl->per_second;
}

/* The first writer of a second begins its window. */
static bool is_within_rate(struct rp_limit *limit)
{
	uint64_t second = rp_clock_monotonic_ns() / 1000000000 & (UINT64_MAX >> COUNT_BITS);
	uint64_t window = rp_load_relaxed(&limit->window), next;

	do {
		next = window >> COUNT_BITS == second ? window + 1 : (second << COUNT_BITS) + 1;
		if ((next & COUNT_MASK) > limit->per_second)
			return false;
	} while (!rp_cas_seq_cst(&limit->window, &window, next));
	return true;
}

/*
 * A writer that sees the event enabled also sees its site, because the bit was set after the site.
 */
RP_PUBLIC bool rp_event_admit(struct rp_event *event)
{
	const struct rp_site *site = rp_load_acquire(&event->core);
	struct rp_limit *limit = site ? site->def->limit : NULL;

	if (!limit)
		return true;
	if ((limit->one_in <= 1 || rp_add_relaxed(&limit->count, 1) % limit->one_in == 0) &&
	    (limit->per_second == 0 || is_within_rate(limit)))
		return true;
	(void)rp_add_relaxed(&limit->skipped, 1);
	return false;
}

void rp_limits_begin(const struct rp_session *session)
{
	struct rp_limit *limit;

	cds_list_for_each_entry(limit, &rp_core.limits, node)
		memset(&limit->sessions[session->slot], 0xff, sizeof(limit->sessions[0]));
}

/* Events skipped between off and on do not count for the session. NULL is allowed. */
void rp_limit_switch(struct rp_limit *limit, const struct rp_session *session, bool on)
{
	uint64_t *reported, *until, now;

	if (!limit)
		return;
	reported = &limit->sessions[session->slot].reported;
	until = &limit->sessions[session->slot].until;
	now = rp_load_relaxed(&limit->skipped);
	if (on && *reported == UINT64_MAX) {
		*reported = now;
	} else if (on && *until != UINT64_MAX) {
		*reported += now - *until;
		*until = UINT64_MAX;
	} else if (!on && *reported != UINT64_MAX && *until == UINT64_MAX) {
		*until = now;
	}
}

static uint64_t growth(const struct rp_limit *limit, const struct rp_session *session)
{
	uint64_t reported = limit->sessions[session->slot].reported;
	uint64_t until = limit->sessions[session->slot].until;

	if (reported == UINT64_MAX)
		return 0;
	return (until != UINT64_MAX ? until : rp_load_relaxed(&limit->skipped)) - reported;
}

uint64_t rp_limits_skipped(const struct rp_session *session)
{
	struct rp_limit *limit;
	uint64_t sum = session->skipped;

	cds_list_for_each_entry(limit, &rp_core.limits, node)
		sum += growth(limit, session);
	return sum;
}

static const struct rp_field skipped_fields[] = {
	{ "provider", NULL, 0, RP_TYPE_STRING, 0, 0, NULL },
	{ "event", NULL, 0, RP_TYPE_STRING, 0, 0, NULL },
	{ "count", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
};

static const struct rp_event_def skipped_def = {
	.index = RP_DEF_SKIPPED_INDEX,
	.id = 9,
	.serial = 1,
	.provider = "ringpipe",
	.name = "EventsSkipped",
	.message = "{2} events {0}/{1} skipped by their limit",
	.fields = skipped_fields,
	.field_count = 3,
	.level = RP_LEVEL_INFORMATIONAL,
};

static int emit(struct rp_session *session, const struct rp_def *def, uint64_t count)
{
	size_t provider_bytes = strlen(def->public.provider) + 1;
	size_t name_bytes = strlen(def->public.name) + 1;
	uint8_t payload[2 * (RP_NAME_MAX + 1) + 8];

	memcpy(payload, def->public.provider, provider_bytes);
	memcpy(payload + provider_bytes, def->public.name, name_bytes);
	memcpy(payload + provider_bytes + name_bytes, &count, 8);
	return rp_session_emit(session, &skipped_def, payload,
			       (uint32_t)(provider_bytes + name_bytes + 8));
}

/* Return a limit whose growth the session or the snapshot has not reported; NULL: none. */
static struct rp_limit *find_growth(const struct rp_session *session)
{
	struct rp_limit *limit, *first = NULL;

	cds_list_for_each_entry(limit, &rp_core.limits, node) {
		if (growth(limit, session) == 0)
			continue;
		if (!session->is_snapshot)
			return limit;
		/* A snapshot takes nothing from its session: it goes through the definitions. */
		if (limit->def->public.serial > session->limits_reported &&
		    (!first || limit->def->public.serial < first->def->public.serial))
			first = limit;
	}
	return first;
}

/* Count one limit's growth as reported, and pin its definition. */
static struct rp_def *take_growth(struct rp_session *session, uint64_t *ret_count)
{
	struct rp_limit *limit;
	struct rp_def *def = NULL;

	pthread_mutex_lock(&rp_core.lock);
	limit = find_growth(session);
	if (limit) {
		*ret_count = growth(limit, session);
		if (!session->is_snapshot) {
			limit->sessions[session->slot].reported += *ret_count;
			session->skipped += *ret_count;
		}
		def = limit->def;
		def->pins++;
	}
	pthread_mutex_unlock(&rp_core.lock);
	return def;
}

/* `returned` is the growth if the sink has refused the report. */
static void settle(struct rp_session *session, struct rp_def *def, uint64_t returned)
{
	pthread_mutex_lock(&rp_core.lock);
	def->pins--;
	if (!session->is_snapshot) {
		def->limit->sessions[session->slot].reported -= returned;
		session->skipped -= returned;
	} else if (returned == 0) {
		session->limits_reported = def->public.serial;
	}
	pthread_mutex_unlock(&rp_core.lock);
}

int rp_limits_emit(struct rp_session *session)
{
	struct rp_def *def;
	uint64_t count;
	int ret = 0;

	if (rp_load_relaxed(&rp_core.limit_count) == 0)
		return 0;
	while (ret == 0 && (def = take_growth(session, &count)) != NULL) {
		ret = emit(session, def, count);
		settle(session, def, ret == 0 ? 0 : count);
	}
	return ret;
}
