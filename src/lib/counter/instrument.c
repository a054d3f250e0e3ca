/* SPDX-License-Identifier: MIT */
/* Creates and frees counters: declared in objects, dynamic, or split by tags. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "base/sized.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/warn.h"
#include "core/core.h"
#include "core/provider_table.h"
#include "counter/buckets.h"
#include "counter/counters.h"
#include "counter/state.h"

struct rp_group *rp_group_find(const char *name)
{
	struct rp_group *group;

	cds_list_for_each_entry(group, &rp_counters.groups, node) {
		if (strcmp(group->name, name) == 0)
			return group;
	}
	return NULL;
}

static int get_group(const char *name, struct rp_group **ret_group)
{
	struct rp_group *group = rp_group_find(name);

	if (!group) {
		group = calloc(1, sizeof(*group));
		if (!group)
			return -ENOMEM;
		group->name = rp_text_copy(name);
		if (!group->name) {
			free(group);
			return -ENOMEM;
		}
		CDS_INIT_LIST_HEAD(&group->instruments);
		CDS_INIT_LIST_HEAD(&group->timers);
		cds_list_add_tail(&group->node, &rp_counters.groups);
		/* A session may have requested this provider before it existed. */
		rp_counters_look();
	}
	*ret_group = group;
	return 0;
}

static struct rp_instrument *find_instrument(const struct rp_group *group, const char *name)
{
	struct rp_instrument *instrument;

	cds_list_for_each_entry(instrument, &group->instruments, node) {
		if (strcmp(instrument->name, name) == 0)
			return instrument;
	}
	return NULL;
}

/* Sums get a cell, gauges a cell of which they use one row, histograms a chunk. */
static int get_cells(struct rp_series *series)
{
	uint32_t kind = series->instrument->kind;
	int ret = 0;

	if (kind == RP_COUNTER_HISTOGRAM)
		ret = rp_chunk_get(&series->public.cells);
	else if (!rp_kind_is_observed(kind))
		ret = rp_cell_get(&series->public.cells);
	return ret;
}

static int make_series(struct rp_instrument *instrument, const char *tags,
		       struct rp_series **ret_series)
{
	struct rp_series *series = calloc(1, sizeof(*series));
	int ret = -ENOMEM;

	if (!series)
		return -ENOMEM;
	series->instrument = instrument;
	series->tags = strdup(tags);
	if (series->tags)
		ret = get_cells(series);
	if (ret != 0) {
		free(series->tags);
		free(series);
		return ret;
	}
	series->public.kind = instrument->kind;
	series->public.core = series;
	CDS_INIT_LIST_HEAD(&series->marks);
	CDS_INIT_LIST_HEAD(&series->sites);
	cds_list_add_tail(&series->node, &instrument->series);
	instrument->series_count++;
	*ret_series = series;
	return 0;
}

static void free_series(struct rp_series *series)
{
	rp_series_forget(series);
	cds_list_del(&series->node);
	if (*series->tags)
		rp_chains_remove(&rp_counters.by_tags, &series->by_tags);
	if (series->public.cells && series->instrument->kind == RP_COUNTER_HISTOGRAM)
		rp_chunk_put(series->public.cells);
	else if (series->public.cells)
		rp_cell_put(series->public.cells);
	free(series->tags);
	free(series);
}

static void free_instrument(struct rp_instrument *instrument)
{
	struct rp_series *series, *next;

	cds_list_for_each_entry_safe(series, next, &instrument->series, node)
		free_series(series);
	free(instrument->name);
	free(instrument->unit);
	free(instrument->display_name);
	free(instrument->metadata);
	free(instrument);
}

/* Clients split this text at commas and colons, and fail at a part without a colon. */
static bool metadata_is_valid(const char *text)
{
	while (text && *text) {
		size_t length = strcspn(text, ",");

		if (!memchr(text, ':', length))
			return false;
		text += length + (text[length] == ',');
	}
	return true;
}

static bool decl_is_valid(const struct rp_counter_decl *decl)
{
	return rp_text_is_name(decl->name) && decl->kind >= RP_COUNTER_SUM &&
	       decl->kind <= RP_COUNTER_OBSERVED_GAUGE && decl->reserved2 == 0 &&
	       rp_kind_is_observed(decl->kind) == (decl->observe != NULL) &&
	       (!decl->unit || !*decl->unit || rp_text_is_name(decl->unit)) &&
	       (!decl->display_name || !*decl->display_name ||
		rp_text_is_name(decl->display_name)) &&
	       (!decl->metadata || !*decl->metadata || rp_text_is_name(decl->metadata)) &&
	       metadata_is_valid(decl->metadata);
}

static int make_instrument(struct rp_group *group, const struct rp_counter_decl *decl,
			   struct rp_instrument **ret_instrument)
{
	struct rp_instrument *instrument = calloc(1, sizeof(*instrument));
	struct rp_series *series;
	int ret = -ENOMEM;

	if (!instrument)
		return -ENOMEM;
	CDS_INIT_LIST_HEAD(&instrument->series);
	instrument->group = group;
	instrument->kind = decl->kind;
	instrument->rate_seconds = decl->rate_seconds;
	instrument->observe = decl->observe;
	instrument->data = decl->data;
	instrument->name = rp_text_copy(decl->name);
	instrument->unit = rp_text_copy(decl->unit ? decl->unit : "");
	instrument->display_name = rp_text_copy(decl->display_name ? decl->display_name : "");
	instrument->metadata = rp_text_copy(decl->metadata ? decl->metadata : "");
	if (instrument->name && instrument->unit && instrument->display_name &&
	    instrument->metadata)
		ret = make_series(instrument, "", &series);
	if (ret != 0) {
		free_instrument(instrument);
		return ret;
	}
	instrument->id = ++rp_counters.next_id;
	cds_list_add_tail(&instrument->node, &group->instruments);
	*ret_instrument = instrument;
	return 0;
}

static struct rp_series *first_series(const struct rp_instrument *instrument)
{
	return cds_list_first_entry(&instrument->series, struct rp_series, node);
}

/* The instrument of a declared counter, which those of other objects share. */
static int get_instrument(const struct rp_counter_decl *given,
			  struct rp_instrument **ret_instrument)
{
	struct rp_provider_decl provider;
	struct rp_instrument *instrument;
	struct rp_counter_decl decl;
	struct rp_group *group;
	int ret;

	if (rp_sized_read(&decl, sizeof(decl), RP_COUNTER_DECL_SIZE_V1, given) != 0 ||
	    !decl_is_valid(&decl) || rp_provider_decl_read(&provider, decl.provider) != 0)
		return -EINVAL;
	ret = get_group(provider.name, &group);
	if (ret != 0)
		return ret;
	instrument = find_instrument(group, decl.name);
	if (!instrument)
		return make_instrument(group, &decl, ret_instrument);
	if (instrument->sites == 0 || instrument->kind != decl.kind)
		return -EEXIST;
	*ret_instrument = instrument;
	return 0;
}

/* One declared counter of one object: joins those of other objects. -EEXIST: of another kind. */
static int register_counter(struct rp_counter *counter)
{
	struct rp_counter_site *site;
	struct rp_instrument *instrument;
	struct rp_series *series;
	int ret;

	site = calloc(1, sizeof(*site));
	if (!site)
		return -ENOMEM;
	ret = get_instrument(counter->decl, &instrument);
	if (ret != 0) {
		free(site);
		return ret;
	}
	instrument->sites++;
	series = first_series(instrument);
	site->counter = counter;
	cds_list_add_tail(&site->node, &series->sites);
	counter->core = series;
	rp_store_release(&counter->cells, series->public.cells);
	return 0;
}

static void remove_instrument(struct rp_instrument *instrument)
{
	if (rp_counters.ending)
		rp_counters.ending(instrument);
	cds_list_del(&instrument->node);
	free_instrument(instrument);
}

/* The count remains as long as another object declares the counter. */
static void unregister_counter(struct rp_counter *counter)
{
	struct rp_series *series = counter->core;
	struct rp_counter_site *site, *next;

	cds_list_for_each_entry_safe(site, next, &series->sites, node) {
		if (site->counter != counter)
			continue;
		series->early += rp_load_relaxed(&counter->early);
		cds_list_del(&site->node);
		free(site);
	}
	counter->core = NULL;
	rp_store_relaxed(&counter->early, 0);
	rp_store_relaxed(&counter->cells, NULL);
	if (--series->instrument->sites == 0)
		remove_instrument(series->instrument);
}

static void report_counter(const struct rp_counter_decl *decl, int error)
{
	const char *reason = rp_sized_refusal(decl, sizeof(*decl), RP_COUNTER_DECL_SIZE_V1);
	struct rp_provider_decl provider;

	if (!rp_sized_fits(decl, RP_COUNTER_DECL_SIZE_V1)) {
		rp_warn("ringpipe: a counter is left out: %s\n", reason);
		return;
	}
	if (rp_provider_decl_read(&provider, decl->provider) != 0)
		return;		/* the report of its provider mentions it */
	if (!reason && error == -EEXIST)
		reason = "there is one of this name already, of another kind or dynamic";
	else if (!reason)
		reason = error == -ENOMEM ? "memory is short" : "its declaration is invalid";
	rp_warn("ringpipe: counter %s of %s is left out: %s\n",
		rp_text_is_name(decl->name) ? decl->name : "?", provider.name, reason);
}

void rp_counters_register(struct rp_object *object)
{
	if (!rp_sized_fits(object, RP_OBJECT_SIZE_V1))
		return;
	pthread_mutex_lock(&rp_counters.lock);
	for (struct rp_counter **entry = object->counters; entry < object->counters_end; entry++) {
		int ret = *entry && !(*entry)->core ? register_counter(*entry) : 0;

		if (ret == 0)
			continue;
		/* Without the lock, for standard error may be a pipe that is full. */
		pthread_mutex_unlock(&rp_counters.lock);
		report_counter((*entry)->decl, ret);
		pthread_mutex_lock(&rp_counters.lock);
	}
	pthread_mutex_unlock(&rp_counters.lock);
}

void rp_counters_unregister(struct rp_object *object)
{
	if (!rp_sized_fits(object, RP_OBJECT_SIZE_V1))
		return;
	pthread_mutex_lock(&rp_counters.lock);
	for (struct rp_counter **entry = object->counters; entry < object->counters_end; entry++) {
		if (*entry && (*entry)->core)
			unregister_counter(*entry);
	}
	pthread_mutex_unlock(&rp_counters.lock);
}

int rp_instrument_create(const char *provider, const struct rp_counter_decl *decl, uint8_t hidden,
			 struct rp_series **ret_series)
{
	struct rp_instrument *instrument;
	struct rp_counter_decl own;
	struct rp_group *group;
	int ret;

	ret = rp_sized_read(&own, sizeof(own), RP_COUNTER_DECL_SIZE_V1, decl);
	if (ret != 0 || !decl_is_valid(&own))
		return -EINVAL;
	pthread_mutex_lock(&rp_counters.lock);
	ret = get_group(provider, &group);
	if (ret == 0 && find_instrument(group, own.name))
		ret = -EEXIST;
	if (ret == 0)
		ret = make_instrument(group, &own, &instrument);
	if (ret == 0)
		instrument->hidden = hidden;
	if (ret == 0 && ret_series)
		*ret_series = first_series(instrument);
	pthread_mutex_unlock(&rp_counters.lock);
	return ret;
}

RP_PUBLIC int rp_counter_create(struct rp_provider *provider, const struct rp_counter_decl *decl,
				struct rp_counter **ret_counter)
{
	struct rp_series *series;
	int ret;

	if (!provider || !ret_counter)
		return -EINVAL;
	ret = rp_instrument_create(rp_provider_name(provider), decl, 0, &series);
	if (ret == 0)
		*ret_counter = &series->public;
	return ret;
}

RP_PUBLIC int rp_counter_destroy(struct rp_counter *counter)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct rp_instrument *instrument;
	struct rp_series *series;
	int ret = 0;

	if (!counter)
		return 0;
	series = counter->core;
	if (!series || counter != &series->public || *series->tags)
		return -EINVAL;
	instrument = series->instrument;
	pthread_mutex_lock(&rp_counters.lock);
	if (instrument->observing && pthread_equal(instrument->observer, pthread_self()))
		ret = -EDEADLK;
	instrument->going = ret == 0;
	while (ret == 0 && (instrument->observing || instrument->users))
		pthread_cond_wait(&rp_counters.changed, &rp_counters.lock);
	if (ret == 0)
		remove_instrument(instrument);
	pthread_mutex_unlock(&rp_counters.lock);
	return ret;
}

static int find_tagged(struct rp_instrument *instrument, const char *text,
		       struct rp_series **ret_series)
{
	struct cds_hlist_head *chain;
	struct rp_series *series;
	uint64_t hash;
	int ret;

	hash = rp_hash_text(rp_hash_bytes(RP_HASH_BEGIN, &instrument->id, sizeof(instrument->id)),
			    text);
	chain = rp_chains_at(&rp_counters.by_tags, hash);
	cds_hlist_for_each_entry_2(series, chain, by_tags.node) {
		if (series->by_tags.hash == hash && series->instrument == instrument &&
		    strcmp(series->tags, text) == 0) {
			*ret_series = series;
			return 0;
		}
	}
	ret = instrument->series_count < RP_COUNTER_SERIES_MAX ? 0 : -ENOSPC;
	if (ret == 0)
		ret = make_series(instrument, text, &series);
	if (ret != 0)
		return ret;
	rp_chains_add(&rp_counters.by_tags, &series->by_tags, hash);
	*ret_series = series;
	return 0;
}

int rp_series_find(struct rp_instrument *instrument, const struct rp_counter_tag *tags,
		   size_t tag_count, struct rp_series **ret_series)
{
	char space[RP_TAGS_CAPACITY], *text;
	int ret;

	if (tag_count == 0) {
		*ret_series = first_series(instrument);
		return 0;
	}
	ret = rp_tags_join(tags, tag_count, space, &text);
	if (ret != 0)
		return ret;
	ret = find_tagged(instrument, text, ret_series);
	if (text != space)
		free(text);
	return ret;
}

RP_PUBLIC int rp_counter_series(struct rp_counter *counter, const struct rp_counter_tag *tags,
				size_t tag_count, struct rp_counter **ret_series)
{
	struct rp_series *series = counter ? counter->core : NULL, *found;
	int ret;

	if (!series || *series->tags || tag_count == 0 || rp_kind_is_observed(counter->kind) ||
	    !ret_series)
		return -EINVAL;
	pthread_mutex_lock(&rp_counters.lock);
	ret = rp_series_find(series->instrument, tags, tag_count, &found);
	if (ret == 0)
		*ret_series = &found->public;
	pthread_mutex_unlock(&rp_counters.lock);
	return ret;
}

RP_PUBLIC int rp_counter_add_tagged(struct rp_counter *counter, int64_t by,
				    const struct rp_counter_tag *tags, size_t tag_count)
{
	struct rp_counter *series;
	int ret = rp_counter_series(counter, tags, tag_count, &series);

	return ret == 0 ? rp_counter_add(series, by) : ret;
}

RP_PUBLIC int rp_counter_record_tagged(struct rp_counter *counter, double value,
				       const struct rp_counter_tag *tags, size_t tag_count)
{
	struct rp_counter *series;
	int ret = rp_counter_series(counter, tags, tag_count, &series);

	return ret == 0 ? rp_counter_record(series, value) : ret;
}
