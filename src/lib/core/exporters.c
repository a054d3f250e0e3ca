/* SPDX-License-Identifier: MIT */
/*
 * The engine calls exporters without its own lock, because exporters may block. A separate lock
 * prevents that words are added or removed in the meantime: code that adds or removes sites holds
 * it throughout. A thread that holds it may take the engine's lock, inside which no thread takes
 * another lock.
 */
#include "core/exporters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/atomic.h"
#include "core/core.h"
#include "core/def_table.h"
#include "core/event_def.h"
#include "core/exporter_set.h"
#include "core/keys.h"
#include "core/notices.h"
#include "core/provider_table.h"
#include "core/sites.h"

static struct {
	pthread_mutex_t lock;
	bool switched;		/* callbacks may be due */
} exporters = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Words that were added or removed, for one call. */
struct batch {
	struct rp_export **exports;
	size_t count, capacity;
};

static bool batch_add(struct batch *batch, struct rp_export *export)
{
	struct rp_export **grown;

	grown = rp_array_reserve(batch->exports, batch->count, &batch->capacity, 1, sizeof(*grown));
	if (!grown)
		return false;
	batch->exports = grown;
	batch->exports[batch->count++] = export;
	return true;
}

/*
 * Create an export for a site. Without memory, the exporter does not get the event. With the
 * engine's lock.
 */
static void make_export(struct rp_site *site, const struct rp_exporter *exporter,
			struct batch *batch)
{
	struct rp_export *export;

	if (site->exports[exporter->slot] || site->provider->by_name || site->provider->leaving)
		return;
	export = calloc(1, sizeof(*export));
	if (!export)
		return;
	export->event = site->event;
	export->def = &site->def->public;
	export->bit = 1ull << (RP_EXPORTER_BIT + exporter->slot);
	if (batch_add(batch, export))
		rp_store_release(&site->exports[exporter->slot], export);
	else
		free(export);
}

static void emit(const struct rp_exporter *exporter, struct batch *batch)
{
	if (batch->count)
		exporter->ops->add(batch->exports, batch->count);
	free(batch->exports);
}

void rp_exporters_settle(void)
{
	struct rp_site *site, *next;

	for (uint32_t i = 0; i < rp_core.exporter_count; i++) {
		struct batch batch = { 0 };

		pthread_mutex_lock(&rp_core.lock);
		cds_list_for_each_entry(site, &rp_core.unreported, unreported)
			make_export(site, &rp_core.exporters[i], &batch);
		pthread_mutex_unlock(&rp_core.lock);
		emit(&rp_core.exporters[i], &batch);
	}
	pthread_mutex_lock(&rp_core.lock);
	cds_list_for_each_entry_safe(site, next, &rp_core.unreported, unreported) {
		cds_list_del(&site->unreported);
		CDS_INIT_LIST_HEAD(&site->unreported);
	}
	pthread_mutex_unlock(&rp_core.lock);
}

int rp_exporter_register(const struct rp_exporter_ops *ops, struct rp_exporter **ret_exporter)
{
	struct rp_exporter *exporter = NULL;
	struct batch batch = { 0 };
	struct rp_provider *provider;
	struct rp_site *site;

	if (ops->size < sizeof(*ops) || !ops->name)
		return -EINVAL;
	rp_exporters_lock();
	pthread_mutex_lock(&rp_core.lock);
	if (rp_core.exporter_count < RP_EXPORTERS_MAX) {
		exporter = &rp_core.exporters[rp_core.exporter_count];
		*exporter = (struct rp_exporter){ .ops = ops, .id = rp_core_next_id(),
						  .slot = rp_core.exporter_count };
		rp_core.exporter_count++;
		*ret_exporter = exporter;
		cds_list_for_each_entry(provider, &rp_core.providers, node) {
			cds_list_for_each_entry(site, &provider->sites, node)
				make_export(site, exporter, &batch);
		}
	}
	pthread_mutex_unlock(&rp_core.lock);
	if (exporter)
		emit(exporter, &batch);
	rp_exporters_unlock();
	return exporter ? 0 : -ENOSPC;
}

/* Clear the bits of a site and remove its exports. With the engine's lock. */
static void take_exports(struct rp_site *site, struct batch batches[RP_EXPORTERS_MAX])
{
	for (uint32_t i = 0; i < rp_core.exporter_count; i++) {
		struct rp_export *export = site->exports[i];

		if (!export)
			continue;
		rp_export_switch(export, false);
		rp_store_release(&site->exports[i], NULL);
		/* Without memory for the list, remove each export separately. */
		if (!batch_add(&batches[i], export)) {
			pthread_mutex_unlock(&rp_core.lock);
			rp_core.exporters[i].ops->remove(&export, 1);
			pthread_mutex_lock(&rp_core.lock);
			free(export);
		}
	}
}

static void take_leave(struct batch batches[RP_EXPORTERS_MAX])
{
	for (uint32_t i = 0; i < rp_core.exporter_count; i++) {
		struct batch *batch = &batches[i];

		if (batch->count)
			rp_core.exporters[i].ops->remove(batch->exports, batch->count);
		for (size_t k = 0; k < batch->count; k++)
			free(batch->exports[k]);
		free(batch->exports);
	}
}

void rp_exporters_withdraw(struct rp_provider *provider)
{
	struct batch batches[RP_EXPORTERS_MAX] = { 0 };
	struct rp_site *site;

	pthread_mutex_lock(&rp_core.lock);
	provider->leaving = true;
	cds_list_for_each_entry(site, &provider->sites, node)
		take_exports(site, batches);
	pthread_mutex_unlock(&rp_core.lock);
	take_leave(batches);
}

void rp_exporters_withdraw_event(struct rp_event *event)
{
	struct batch batches[RP_EXPORTERS_MAX] = { 0 };

	pthread_mutex_lock(&rp_core.lock);
	if (event->core && ((struct rp_site *)event->core)->heap)
		take_exports(event->core, batches);
	pthread_mutex_unlock(&rp_core.lock);
	take_leave(batches);
}

void rp_export_switch(const struct rp_export *export, bool on)
{
	uint64_t *enable = &export->event->enable;

	if (((rp_load_relaxed(enable) & export->bit) != 0) == on)
		return;
	if (on)
		rp_or_seq_cst(enable, export->bit);
	else
		rp_and_seq_cst(enable, ~export->bit);
	exporters.switched = true;
}

/* Queue a notice for the provider if the exporter's state has changed. With the engine's lock. */
static void queue_news(struct rp_provider *provider, const struct rp_exporter *exporter)
{
	struct rp_export_state *reported = &provider->reported[exporter->slot], now;

	rp_export_state_get(provider, exporter, &now);
	if ((now.events != 0) == (reported->events != 0) && now.keywords == reported->keywords &&
	    now.level == reported->level)
		return;
	if (rp_notice_add(provider, exporter->id, now.events != 0, NULL) == 0)
		*reported = now;
}

void rp_exporters_announce(void)
{
	struct rp_provider *provider;

	pthread_mutex_lock(&rp_core.lock);
	rp_keys_settle();
	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		if (!rp_provider_is_observed(provider) || provider->leaving)
			continue;
		for (uint32_t i = 0; i < rp_core.exporter_count; i++)
			queue_news(provider, &rp_core.exporters[i]);
	}
	pthread_mutex_unlock(&rp_core.lock);
	rp_notices_run(true);
}

void rp_exporters_replay(struct rp_provider *provider)
{
	for (uint32_t i = 0; i < rp_core.exporter_count; i++) {
		provider->reported[i] = (struct rp_export_state){ 0 };
		queue_news(provider, &rp_core.exporters[i]);
	}
}

void rp_exporters_lock(void)
{
	pthread_mutex_lock(&exporters.lock);
}

void rp_exporters_unlock(void)
{
	bool switched = exporters.switched;

	exporters.switched = false;
	pthread_mutex_unlock(&exporters.lock);
	if (switched)
		rp_exporters_announce();
}

uint64_t rp_exporters_kernel_bits(void)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < rp_core.exporter_count; i++) {
		if (rp_core.exporters[i].ops->flags & RP_EXPORTER_KERNEL)
			bits |= 1ull << (RP_EXPORTER_BIT + i);
	}
	return bits;
}

void rp_export_write(const struct rp_event *event, uint64_t bit, const struct rp_part *parts,
		     unsigned int part_count, uint64_t payload_bytes)
{
	uint32_t slot = (uint32_t)__builtin_ctzll(bit) - RP_EXPORTER_BIT;
	const struct rp_site *site = event->core;
	struct rp_export *export = site ? rp_load_acquire(&site->exports[slot]) : NULL;

	if (export)
		rp_core.exporters[slot].ops->write(export, parts, part_count, payload_bytes);
}

void rp_exporters_fork_prepare(void)
{
	rp_exporters_lock();
	for (uint32_t i = 0; i < rp_core.exporter_count; i++) {
		if (rp_core.exporters[i].ops->fork_prepare)
			rp_core.exporters[i].ops->fork_prepare();
	}
}

/* Reset the losses in a forked child: earlier losses belong to the parent. */
static void forget_losses(void)
{
	struct rp_provider *provider;
	struct rp_site *site;

	cds_list_for_each_entry(provider, &rp_core.providers, node) {
		cds_list_for_each_entry(site, &provider->sites, node) {
			for (uint32_t i = 0; i < rp_core.exporter_count; i++) {
				if (site->exports[i])
					rp_store_relaxed(&site->exports[i]->lost, 0);
			}
		}
	}
}

/* In the reverse order of the preparation. */
void rp_exporters_fork_parent(void)
{
	for (uint32_t i = rp_core.exporter_count; i-- > 0;) {
		if (rp_core.exporters[i].ops->fork_parent)
			rp_core.exporters[i].ops->fork_parent();
	}
	rp_exporters_unlock();
}

void rp_exporters_fork_child(void)
{
	forget_losses();
	for (uint32_t i = rp_core.exporter_count; i-- > 0;) {
		if (rp_core.exporters[i].ops->fork_child)
			rp_core.exporters[i].ops->fork_child();
	}
	rp_exporters_unlock();
}
