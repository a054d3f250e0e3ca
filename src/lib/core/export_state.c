/* SPDX-License-Identifier: MIT */
#include "base/atomic.h"
#include "core/core.h"
#include "core/def_table.h"
#include "core/event_def.h"
#include "core/exporter_set.h"
#include "core/provider_table.h"
#include "core/sites.h"

void rp_export_state_get(const struct rp_provider *provider, const struct rp_exporter *exporter,
			 struct rp_export_state *ret_state)
{
	struct rp_site *site;

	*ret_state = (struct rp_export_state){ 0 };
	cds_list_for_each_entry(site, &provider->sites, node) {
		const struct rp_export *export = site->exports[exporter->slot];
		const struct rp_event_def *def = &site->def->public;

		if (export)
			ret_state->lost += rp_load_relaxed(&export->lost);
		if (!export || (rp_load_relaxed(&site->event->enable) & export->bit) == 0)
			continue;
		ret_state->events++;
		ret_state->keywords |= def->keywords;
		if (ret_state->level < def->level)
			ret_state->level = def->level;
	}
}
