/* SPDX-License-Identifier: MIT */
/* The list of enabled events: copied under the lock, and reported without it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/atomic.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/def_table.h"
#include "core/enable.h"
#include "core/exporter_set.h"
#include "core/kernel_probes.h"
#include "core/listing.h"
#include "core/provider_table.h"
#include "core/session_setup.h"
#include "core/session_state.h"
#include "core/sites.h"

/* One row of rp_enabled_list(), copied so that the callback runs without the lock. */
struct enabled_row {
	struct rp_enabled enabled;
	char *provider, *session, *filter;
};

struct enabled_rows {
	struct enabled_row *rows;
	size_t count, capacity;
};

static uint32_t count_events(const struct rp_provider *provider, const struct rp_config *config)
{
	struct rp_site *site;
	uint32_t count = 0;

	cds_list_for_each_entry(site, &provider->sites, node)
		count += rp_config_wants(config, &site->def->public);
	return count;
}

/* Append a row. Return NULL without memory. */
static struct enabled_row *add_row(struct enabled_rows *rows, const struct rp_provider *provider,
				   const char *session)
{
	struct enabled_row *row, *grown;

	grown = rp_array_reserve(rows->rows, rows->count, &rows->capacity, 1, sizeof(*grown));
	if (!grown)
		return NULL;
	rows->rows = grown;
	row = &rows->rows[rows->count];
	memset(row, 0, sizeof(*row));
	rows->count++;
	row->provider = rp_text_copy(provider->name);
	row->session = rp_text_copy(session);
	row->enabled.size = sizeof(row->enabled);
	row->enabled.provider = row->provider;
	row->enabled.session_name = row->session;
	return row->provider && (!session || row->session) ? row : NULL;
}

static int add_session(struct enabled_rows *rows, const struct rp_provider *provider,
		       const struct rp_session *session, const struct rp_config *config)
{
	struct enabled_row *row = add_row(rows, provider, session->name);

	if (!row)
		return -ENOMEM;
	row->filter = rp_text_copy(config->filter_data);
	row->enabled.event_count = count_events(provider, config);
	row->enabled.session_id = session->id;
	row->enabled.keywords = config->keywords;
	row->enabled.level = config->level;
	row->enabled.filter_data = row->filter;
	return 0;
}

static int add_exporter(struct enabled_rows *rows, const struct rp_provider *provider,
			const struct rp_exporter *exporter, const struct rp_export_state *state)
{
	struct enabled_row *row = add_row(rows, provider, exporter->ops->name);

	if (!row)
		return -ENOMEM;
	row->enabled.event_count = state->events;
	row->enabled.session_id = exporter->id;
	row->enabled.keywords = state->keywords;
	row->enabled.level = state->level;
	row->enabled.lost = state->lost;
	return 0;
}

static int add_provider(struct enabled_rows *rows, const struct rp_provider *provider)
{
	size_t before = rows->count;
	struct rp_session *session;
	int ret = 0;

	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		const struct rp_config *config = rp_session_config(session, provider);

		if (ret == 0 && session->state == RP_SESSION_RUNNING && config)
			ret = add_session(rows, provider, session, config);
	}
	for (uint32_t i = 0; ret == 0 && i < rp_core.exporter_count; i++) {
		struct rp_export_state state;

		rp_export_state_get(provider, &rp_core.exporters[i], &state);
		if (state.events || state.lost)
			ret = add_exporter(rows, provider, &rp_core.exporters[i], &state);
	}
	if (ret == 0 && rows->count == before && !add_row(rows, provider, NULL))
		ret = -ENOMEM;
	return ret;
}

static int collect_rows(struct enabled_rows *rows)
{
	struct rp_provider *provider;
	int ret = 0;

	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		if (ret == 0)
			ret = add_provider(rows, provider);
	}
	return ret;
}

RP_PUBLIC int rp_enabled_list(int (*row)(const struct rp_enabled *enabled, void *data), void *data)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
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

/* One row of rp_traced_list(). */
struct traced_row {
	struct traced_row *next;
	struct rp_traced traced;
	char *provider, *event;
};

/* Append a row for the event if it has tracers. */
static int add_traced(struct traced_row ***end, const struct rp_provider *provider,
		      const struct rp_site *site)
{
	uint32_t tracers = rp_event_tracers(site->event);
	struct traced_row *row;

	if (tracers == 0)
		return 0;
	row = calloc(1, sizeof(*row));
	if (!row)
		return -ENOMEM;
	**end = row;
	*end = &row->next;
	row->provider = rp_text_copy(provider->name);
	row->event = rp_text_copy(site->def->public.name);
	row->traced = (struct rp_traced){
		.size = sizeof(row->traced),
		.tracers = tracers,
		.provider = row->provider,
		.event = row->event,
	};
	return row->provider && row->event ? 0 : -ENOMEM;
}

static int collect_traced(struct traced_row **end)
{
	struct rp_provider *provider;
	struct rp_site *site;
	int ret = 0;

	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		cds_list_for_each_entry(site, &provider->sites, node) {
			if (ret == 0)
				ret = add_traced(&end, provider, site);
		}
	}
	return ret;
}

RP_PUBLIC int rp_traced_list(int (*row)(const struct rp_traced *traced, void *data), void *data)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct traced_row *rows = NULL, *at;
	int ret;

	pthread_mutex_lock(&rp_core.lock);
	ret = collect_traced(&rows);
	pthread_mutex_unlock(&rp_core.lock);
	while ((at = rows)) {
		if (ret == 0)
			ret = row(&at->traced, data);
		rows = at->next;
		free(at->provider);
		free(at->event);
		free(at);
	}
	return ret;
}

int rp_core_list_events(int (*row)(const struct rp_event_def *def, void *data), void *data)
{
	struct rp_provider *provider;
	struct rp_site *site;
	int ret = 0;

	pthread_mutex_lock(&rp_core.lock);
	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		cds_list_for_each_entry(site, &provider->sites, node) {
			if (ret == 0)
				ret = row(&site->def->public, data);
		}
	}
	pthread_mutex_unlock(&rp_core.lock);
	return ret;
}

/* Fill the rows and, after them, the strings. If `requests` is NULL, only count and measure. */
static size_t fill_requests(struct rp_request *requests, char *strings, size_t *ret_count)
{
	struct rp_session *session;
	size_t count = 0, bytes = 0;

	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		for (size_t i = 0; i < session->config_count; i++) {
			const struct rp_config *config = &session->configs[i];
			size_t name_bytes = strlen(config->name) + 1, data_bytes;

			if (session->state != RP_SESSION_RUNNING || !config->filter_data)
				continue;
			data_bytes = strlen(config->filter_data) + 1;
			if (requests) {
				requests[count].session_id = session->id;
				requests[count].provider = memcpy(strings + bytes, config->name,
								  name_bytes);
				requests[count].filter_data = memcpy(strings + bytes + name_bytes,
								     config->filter_data,
								     data_bytes);
			}
			count++;
			bytes += name_bytes + data_bytes;
		}
	}
	*ret_count = count;
	return bytes;
}

int rp_requests_get(struct rp_request **ret_requests, size_t *ret_count)
{
	struct rp_request *requests;
	size_t count, bytes;

	pthread_mutex_lock(&rp_core.lock);
	bytes = fill_requests(NULL, NULL, &count);
	requests = malloc(count * sizeof(*requests) + bytes + 1);
	if (requests)
		fill_requests(requests, (char *)(requests + count), &count);
	pthread_mutex_unlock(&rp_core.lock);
	if (!requests)
		return -ENOMEM;
	*ret_requests = requests;
	*ret_count = count;
	return 0;
}

void rp_core_watch(void (*changed)(void))
{
	rp_store_release(&rp_core.watcher, changed);
}

void rp_core_changed(void)
{
	void (*changed)(void) = rp_load_acquire(&rp_core.watcher);

	if (changed)
		changed();
}
