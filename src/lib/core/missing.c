/* SPDX-License-Identifier: MIT */
#include "core/missing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/enable.h"
#include "core/provider_table.h"
#include "core/session_emit.h"
#include "core/session_state.h"

#define DELAY_NS 1000000000u
#define EXISTING_BYTES 1000u

struct rp_missing {
	void (*report)(const char *provider, const char *existing);
	uint64_t due_ns;
	bool settled;			/* the members below no longer change */
	bool reported;
	size_t count;
	bool *found;			/* by entry of the session's list */
	char existing[EXISTING_BYTES];	/* "Bank, Shop" */
};

static const struct rp_field missing_fields[] = {
	{ "provider", NULL, 0, RP_TYPE_STRING, 0, 0, NULL },
	{ "existing", NULL, 0, RP_TYPE_STRING, 0, 0, NULL },
};

static const struct rp_event_def missing_def = {
	.index = RP_DEF_MISSING_INDEX,
	.id = 7,
	.serial = 1,
	.provider = "ringpipe",
	.name = "ProviderMissing",
	.message = "the process has no provider {0}; it has {1}",
	.fields = missing_fields,
	.field_count = 2,
	.level = RP_LEVEL_WARNING,
};

/*
 * Names that are never missing: all providers, and providers that the library creates when a
 * session first requests them.
 */
static bool is_always_there(const char *name)
{
	static const char *const always[] = {
		"*", "ringpipe", "System.Runtime", "System.Diagnostics.Metrics",
		"Microsoft-DotNETCore-SampleProfiler",
	};

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
		if (strcmp(name, always[i]) == 0)
			return true;
	}
	return false;
}

/* Add a name to the list, unless the list has it or it does not fit. */
static void add_name(char *list, const char *name)
{
	const size_t length = strlen(name), used = strlen(list);

	for (const char *at = list; *at;) {
		const size_t entry = strcspn(at, ",");

		if (entry == length && memcmp(at, name, length) == 0)
			return;
		at += entry;
		at += strspn(at, ", ");
	}
	if (used + length + 3 > EXISTING_BYTES)
		return;
	if (used)
		strcat(list, ", ");
	strcat(list, name);
}

void rp_missing_note(const struct rp_session *session, const struct rp_provider *provider)
{
	struct rp_missing *missing = session->missing;

	if (!missing || missing->settled)
		return;
	add_name(missing->existing, provider->name);
	for (size_t i = 0; i < missing->count && i < session->config_count; i++)
		missing->found[i] |= strcmp(session->configs[i].name, provider->name) == 0;
}

static void note_all(const struct rp_session *session)
{
	struct rp_provider *provider;

	cds_list_for_each_entry(provider, &rp_core.providers, node)
		rp_missing_note(session, provider);
}

int rp_session_watch_missing(struct rp_session *session,
			     void (*report)(const char *provider, const char *existing))
{
	struct rp_missing *missing = calloc(1, sizeof(*missing));

	if (missing)
		missing->found = calloc(session->config_count + 1, sizeof(*missing->found));
	if (!missing || !missing->found) {
		free(missing);
		return -ENOMEM;
	}
	missing->report = report;
	missing->count = session->config_count;
	missing->due_ns = rp_clock_monotonic_ns() + DELAY_NS;
	pthread_mutex_lock(&rp_core.lock);
	for (size_t i = 0; i < missing->count; i++)
		missing->found[i] = is_always_there(session->configs[i].name);
	/* The drain thread may already read the session. [MISSING] */
	rp_store_release(&session->missing, missing);
	/*
	 * A later provider is noted when it registers, because it may no longer exist at the end.
	 */
	note_all(session);
	pthread_mutex_unlock(&rp_core.lock);
	return 0;
}

void rp_missing_settle(struct rp_session *session)
{
	struct rp_missing *missing = session->missing;

	if (!missing || missing->settled ||
	    (session->state == RP_SESSION_RUNNING && rp_clock_monotonic_ns() < missing->due_ns))
		return;
	note_all(session);
	rp_store_release(&missing->settled, true);
}

void rp_missing_report(struct rp_session *session)
{
	struct rp_missing *missing = rp_load_acquire(&session->missing);	/* [MISSING] */

	if (!missing || !missing->report || !missing->settled || missing->reported)
		return;
	missing->reported = true;
	for (size_t i = 0; i < missing->count && i < session->config_count; i++) {
		if (!missing->found[i])
			missing->report(session->configs[i].name, missing->existing);
	}
}

static int emit(struct rp_session *session, const char *provider, const char *existing)
{
	char payload[RP_NAME_MAX + 1 + EXISTING_BYTES];
	const size_t provider_bytes = strlen(provider) + 1, existing_bytes = strlen(existing) + 1;

	memcpy(payload, provider, provider_bytes);
	memcpy(payload + provider_bytes, existing, existing_bytes);
	return rp_session_emit(session, &missing_def, payload,
			       (uint32_t)(provider_bytes + existing_bytes));
}

int rp_missing_emit(struct rp_session *session)
{
	const struct rp_missing *missing = rp_load_acquire(&session->missing);	/* [MISSING] */
	int ret = 0;

	if (!missing || session->reported.missing || !rp_load_acquire(&missing->settled))
		return 0;
	for (size_t i = 0; ret == 0 && i < missing->count && i < session->config_count; i++) {
		if (!missing->found[i])
			ret = emit(session, session->configs[i].name, missing->existing);
	}
	session->reported.missing = ret == 0;
	return ret;
}

void rp_missing_free(struct rp_missing *missing)
{
	if (!missing)
		return;
	free(missing->found);
	free(missing);
}
