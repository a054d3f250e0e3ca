/* SPDX-License-Identifier: MIT */
/* Who enabled what: a snapshot, taken with the lock and told without it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "core/core.h"

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
			const struct rp_config *config = rp_session_config(session, provider);

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
