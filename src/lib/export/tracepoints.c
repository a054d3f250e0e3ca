/* SPDX-License-Identifier: MIT */
#include "export/tracepoints.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/user_event.h"

/* A name contains no separators: space and `;` before fields, `:` before flags, `/` in paths. */
static bool is_name(const char *name)
{
	if (!*name)
		return false;
	for (const char *c = name; *c; c++) {
		if (*c <= ' ' || *c > '~' || strchr(":;/", *c))
			return false;
	}
	return true;
}

static int add_tracepoint(struct rp_tracepoint_table *table, const char *name,
			  const struct rp_tracepoint **ret_tracepoint)
{
	struct rp_tracepoint *tracepoint = &table->tracepoints[table->tracepoint_count];
	size_t bytes = strlen(name) + sizeof(" " RP_USER_EVENT_FIELDS);

	if (!is_name(name) || bytes > RP_USER_COMMAND_BYTES_MAX)
		return -EINVAL;
	tracepoint->command = malloc(bytes);
	if (!tracepoint->command)
		return -ENOMEM;
	strcpy(stpcpy(tracepoint->command, name), " " RP_USER_EVENT_FIELDS);
	table->tracepoint_count++;
	*ret_tracepoint = tracepoint;
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = ((const struct rp_tracepoint_id *)a)->id;
	uint32_t y = ((const struct rp_tracepoint_id *)b)->id;

	return (x > y) - (x < y);
}

static int add_set(struct rp_tracepoint_table *table, struct rp_tracepoint_wish *wish,
		   const struct rp_tracepoint_set *set)
{
	const struct rp_tracepoint *tracepoint;
	int r = add_tracepoint(table, set->name, &tracepoint);

	for (size_t i = 0; r == 0 && i < set->id_count; i++)
		wish->ids[wish->id_count++] = (struct rp_tracepoint_id){ set->ids[i], tracepoint };
	return r;
}

static int make_wish(struct rp_tracepoint_table *table, const struct rp_session_provider *provider,
		     const struct rp_tracepoints *tracepoints)
{
	struct rp_tracepoint_wish *wish = &table->wishes[table->wish_count++];
	size_t id_count = 0;
	int r = rp_config_copy(&wish->config, provider);

	for (size_t i = 0; i < tracepoints->set_count; i++)
		id_count += tracepoints->sets[i].id_count;
	wish->ids = calloc(id_count ? id_count : 1, sizeof(*wish->ids));
	if (r == 0 && !wish->ids)
		r = -ENOMEM;
	if (r == 0 && tracepoints->name)
		r = add_tracepoint(table, tracepoints->name, &wish->tracepoint);
	for (size_t i = 0; r == 0 && i < tracepoints->set_count; i++)
		r = add_set(table, wish, &tracepoints->sets[i]);
	if (r < 0)
		return r;
	qsort(wish->ids, wish->id_count, sizeof(*wish->ids), compare_ids);
	for (size_t i = 1; i < wish->id_count; i++) {
		if (wish->ids[i].id == wish->ids[i - 1].id)
			return -EINVAL;
	}
	return tracepoints->name || tracepoints->set_count ? 0 : -EINVAL;
}

int rp_tracepoint_table_make(struct rp_tracepoint_table *table,
			     const struct rp_user_events_setup *setup)
{
	size_t count = setup->provider_count, tracepoints = count;
	int r = 0;

	for (size_t i = 0; i < count; i++)
		tracepoints += setup->tracepoints[i].set_count;
	*table = (struct rp_tracepoint_table){
		.wishes = calloc(count ? count : 1, sizeof(*table->wishes)),
		.tracepoints = calloc(tracepoints ? tracepoints : 1, sizeof(*table->tracepoints)),
	};
	if (!table->wishes || !table->tracepoints)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = make_wish(table, &setup->providers[i], &setup->tracepoints[i]);
	if (r < 0)
		rp_tracepoint_table_fini(table);
	return r;
}

void rp_tracepoint_table_fini(struct rp_tracepoint_table *table)
{
	for (size_t i = 0; i < table->tracepoint_count; i++)
		free(table->tracepoints[i].command);
	for (size_t i = 0; i < table->wish_count; i++) {
		free(table->wishes[i].config.name);
		free(table->wishes[i].config.filter_data);
		free(table->wishes[i].config.ids);
		free(table->wishes[i].ids);
	}
	free(table->tracepoints);
	free(table->wishes);
	*table = (struct rp_tracepoint_table){ 0 };
}

static const struct rp_tracepoint_wish *wish_for(const struct rp_tracepoint_table *table,
						 const char *provider)
{
	const struct rp_tracepoint_wish *catch_all = NULL;

	for (size_t i = 0; i < table->wish_count; i++) {
		const struct rp_tracepoint_wish *wish = &table->wishes[i];

		if (strcmp(wish->config.name, provider) == 0)
			return wish;
		if (!catch_all && strcmp(wish->config.name, "*") == 0)
			catch_all = wish;
	}
	return catch_all;
}

const struct rp_tracepoint *rp_tracepoint_of(const struct rp_tracepoint_table *table,
					     const struct rp_event_def *def)
{
	const struct rp_tracepoint_wish *wish = wish_for(table, def->provider);
	const struct rp_tracepoint_id key = { .id = def->id }, *found;

	if (!wish || !rp_config_wants(&wish->config, def))
		return NULL;
	found = bsearch(&key, wish->ids, wish->id_count, sizeof(key), compare_ids);
	return found ? found->tracepoint : wish->tracepoint;
}
