/* SPDX-License-Identifier: MIT */
/*
 * Definitions of events, and the enable words registered for them.
 *
 * Records contain the index of a definition. Two sites that declare the same event of the same
 * provider share one definition. After its last site is removed, a definition waits until the drain
 * thread has passed everything written before. Then its index may be reused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/atomic.h"
#include "base/event_definition.h"
#include "base/hash.h"
#include "base/sized.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/def_table.h"
#include "core/enable.h"
#include "core/event_batch.h"
#include "core/event_def.h"
#include "core/exporter_set.h"
#include "core/fields.h"
#include "core/kernel_probes.h"
#include "core/limit.h"
#include "core/provider_table.h"
#include "core/secret.h"
#include "core/sites.h"

_Static_assert(offsetof(struct rp_def, public) == 0, "a definition is found from its public part");

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Only a trace describes the fields of RP_EVENT_WIRE; elsewhere the payload has no fields. */
static uint16_t described_fields(const struct rp_event_def *def)
{
	return def->field_count + def->wire_field_count;
}

static bool same_definition(const struct rp_def *whole, const char *provider,
			    const struct rp_event_decl *decl)
{
	const struct rp_event_def *def = &whole->public;

	return def->id == decl->id && def->version == decl->version && def->level == decl->level &&
	       def->opcode == decl->opcode && def->flags == decl->flags &&
	       def->keywords == decl->keywords && described_fields(def) == decl->field_count &&
	       same_text(def->provider, provider) && same_text(def->name, decl->name) &&
	       same_text(def->message, decl->message) &&
	       rp_limit_is(whole->limit, decl) &&
	       rp_fields_are_same(def->fields, decl->fields, decl->field_count);
}

static void free_def(struct rp_def *def)
{
	if (!def)
		return;
	free((char *)def->public.provider);
	free((char *)def->public.name);
	free((char *)def->public.message);
	rp_fields_free((struct rp_field *)def->public.fields, described_fields(&def->public));
	rp_limit_destroy(def->limit);
	free(def);
}

static struct rp_def *copy_def(const char *provider, const struct rp_event_decl *decl)
{
	struct rp_def *def = calloc(1, sizeof(*def));
	struct rp_event_def *public;

	if (!def)
		return NULL;
	public = &def->public;
	public->id = decl->id;
	public->keywords = decl->keywords;
	public->version = decl->version;
	public->level = decl->level;
	public->opcode = decl->opcode;
	public->flags = decl->flags;
	public->provider = rp_text_copy(provider);
	public->name = rp_text_copy(decl->name);
	public->message = rp_text_copy(decl->message);
	public->fields = rp_fields_copy(decl->fields, decl->field_count);
	if (public->fields && (decl->flags & RP_EVENT_WIRE))
		public->wire_field_count = decl->field_count;
	else if (public->fields)
		public->field_count = decl->field_count;
	if (!public->provider || !public->name || !public->fields ||
	    (decl->message && !public->message) || rp_limit_create(decl, &def->limit) != 0) {
		free_def(def);
		return NULL;
	}
	return def;
}

/* Give the definition an index and an entry in the table. */
static int take_index(struct rp_def *def)
{
	uint32_t index = rp_core.free_count ? rp_core.free_indexes[rp_core.free_count - 1] :
			 rp_core.next_index;
	struct rp_def ***chunk;

	if (index / RP_DEF_CHUNK >= RP_DEF_CHUNKS)
		return -ENOSPC;
	chunk = &rp_core.chunks[index / RP_DEF_CHUNK];
	if (!*chunk) {
		struct rp_def **made = calloc(RP_DEF_CHUNK, sizeof(*made));

		if (!made)
			return -ENOMEM;
		rp_store_release(chunk, made);
	}
	if (rp_core.free_count)
		rp_core.free_count--;
	else
		rp_core.next_index++;
	def->public.index = index;
	def->public.serial = ++rp_core.next_serial;
	rp_store_release(&(*chunk)[index % RP_DEF_CHUNK], def);
	return 0;
}

/* For any thread. */
static struct rp_def *def_by_index(uint32_t index)
{
	struct rp_def **chunk;

	if (index / RP_DEF_CHUNK >= RP_DEF_CHUNKS)
		return NULL;
	chunk = rp_load_acquire(&rp_core.chunks[index / RP_DEF_CHUNK]);
	return chunk ? rp_load_acquire(&chunk[index % RP_DEF_CHUNK]) : NULL;
}

const struct rp_event_def *rp_event_def_by_index(uint32_t index)
{
	const struct rp_def *def = def_by_index(index);

	return def ? &def->public : NULL;
}

/* A secret cannot be replaced in a payload that has another layout than the library's. */
static bool has_wire_secret(const struct rp_event_decl *decl)
{
	for (uint16_t i = 0; (decl->flags & RP_EVENT_WIRE) && i < decl->field_count; i++) {
		if (decl->fields[i].flags & RP_FIELD_SECRET)
			return true;
	}
	return false;
}

int rp_event_decl_read(struct rp_event_decl *ret_decl, const struct rp_event_decl *decl)
{
	struct rp_event_decl own;

	if (rp_sized_read(&own, sizeof(own), RP_EVENT_DECL_SIZE_V1, decl) != 0 ||
	    !rp_text_is_name(own.name))
		return -EINVAL;
	if (own.id == RP_EVENT_ID_AUTO)
		own.id = rp_event_id_from_name(own.name);
	if (own.id > RP_EVENT_ID_MAX || own.level > RP_LEVEL_VERBOSE ||
	    !rp_fields_are_valid(own.fields, own.field_count) || has_wire_secret(&own))
		return -EINVAL;
	*ret_decl = own;
	return 0;
}

int rp_def_get(const char *provider, const struct rp_event_decl *decl, struct rp_def **ret_def)
{
	uint64_t hash = rp_hash_text(RP_HASH_BEGIN, provider);
	struct rp_def *def;
	int ret;

	hash = rp_hash_text(rp_hash_bytes(hash, &decl->id, sizeof(decl->id)), decl->name);
	hash = rp_fields_hash(hash, decl->fields, decl->field_count);
	cds_hlist_for_each_entry_2(def, rp_chains_at(&rp_core.definitions, hash), chain.node) {
		if (def->chain.hash == hash && same_definition(def, provider, decl)) {
			def->refs++;
			*ret_def = def;
			return 0;
		}
	}
	def = copy_def(provider, decl);
	if (!def)
		return -ENOMEM;
	ret = take_index(def);
	if (ret != 0) {
		free_def(def);
		return ret;
	}
	if (def->limit) {
		def->limit->def = def;
		cds_list_add_tail(&def->limit->node, &rp_core.limits);
		rp_store_relaxed(&rp_core.limit_count, rp_core.limit_count + 1);
	}
	def->refs = 1;
	rp_chains_add(&rp_core.definitions, &def->chain, hash);
	*ret_def = def;
	return 0;
}

void rp_def_put(struct rp_def *def)
{
	if (--def->refs > 0)
		return;
	rp_chains_remove(&rp_core.definitions, &def->chain);
	/*
	 * A record may contain the index until all passes begun by now, and one more pass, have
	 * ended.
	 */
	def->retired_pass = rp_load_relaxed(&rp_core.pass) + 1;
	cds_list_add_tail(&def->retired, &rp_core.retired);
	rp_defs_reap(rp_core.session_count ? 0 : UINT64_MAX);
}

static void give_index_back(uint32_t index)
{
	uint32_t *grown;

	grown = rp_array_reserve(rp_core.free_indexes, rp_core.free_count,
				 &rp_core.free_capacity, 1, sizeof(*grown));
	if (!grown)
		return;	/* the index is never reused */
	rp_core.free_indexes = grown;
	rp_core.free_indexes[rp_core.free_count++] = index;
}

void rp_defs_reap(uint64_t passed)
{
	struct rp_def *def, *next;

	cds_list_for_each_entry_safe(def, next, &rp_core.retired, retired) {
		uint32_t index = def->public.index;

		if (def->retired_pass >= passed)
			break;
		if (def->pins)
			continue;
		cds_list_del(&def->retired);
		rp_store_release(&rp_core.chunks[index / RP_DEF_CHUNK][index % RP_DEF_CHUNK], NULL);
		give_index_back(index);
		free_def(def);
	}
}

static void change_pins(const struct rp_event_def *public, uint32_t by)
{
	if (public->index < RP_DEF_OWN_COUNT)
		return;
	pthread_mutex_lock(&rp_core.lock);
	((struct rp_def *)(uintptr_t)public)->pins += by;
	pthread_mutex_unlock(&rp_core.lock);
}

void rp_def_pin(const struct rp_event_def *def)
{
	change_pins(def, 1);
}

void rp_def_unpin(const struct rp_event_def *def)
{
	change_pins(def, UINT32_MAX);
}

static uint64_t site_hash(const struct rp_provider *provider, uint32_t id)
{
	uint64_t hash = rp_hash_bytes(RP_HASH_BEGIN, &provider, sizeof(provider));

	return rp_hash_bytes(hash, &id, sizeof(id));
}

const struct rp_event_def *rp_provider_event(const struct rp_provider *provider, uint32_t id,
					     uint8_t version)
{
	uint64_t hash = site_hash(provider, id);
	struct rp_site *site;

	cds_hlist_for_each_entry_2(site, rp_chains_at(&rp_core.sites, hash), by_id.node) {
		if (site->provider == provider && site->def->public.id == id &&
		    site->def->public.version == version)
			return &site->def->public;
	}
	return NULL;
}

int rp_site_add(struct rp_provider *provider, struct rp_event *event, struct rp_def *def, bool heap)
{
	struct rp_site *site = calloc(1, sizeof(*site));

	if (!site)
		return -ENOMEM;
	site->provider = provider;
	site->event = event;
	site->def = def;
	site->heap = heap;
	cds_list_add_tail(&site->node, &provider->sites);
	rp_chains_add(&rp_core.sites, &site->by_id, site_hash(provider, def->public.id));
	cds_list_add_tail(&site->unreported, &rp_core.unreported);
	rp_store_release(&event->core, site);
	event->index = def->public.index;
	event->flags = def->public.flags;
	if (heap && rp_secret_is_in(&def->public)) {
		event->flags |= RP_EVENT_SECRETS;
		if (rp_core.secret_events++ == 0)
			rp_or_seq_cst(&rp_slow_path_mask, RP_SECRET_BIT);
	}
	rp_or_seq_cst(&event->enable, rp_site_session_bits(site));
	return 0;
}

void rp_site_remove(struct rp_site *site)
{
	/* The upper bits belong to the kernel as long as the word is mapped. */
	rp_and_seq_cst(&site->event->enable, ~RP_OWN_BITS);
	if ((site->event->flags & RP_EVENT_SECRETS) && --rp_core.secret_events == 0)
		rp_and_seq_cst(&rp_slow_path_mask, ~RP_SECRET_BIT);
	site->event->core = NULL;
	cds_list_del(&site->node);
	rp_chains_remove(&rp_core.sites, &site->by_id);
	cds_list_del(&site->unreported);
	rp_def_put(site->def);
	if (site->heap)
		free(site->event);
	free(site);
}

RP_PUBLIC int rp_event_create(struct rp_provider *provider, const struct rp_event_decl *decl,
			      struct rp_event **ret_event)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	struct rp_event_decl own;
	struct rp_event *event;
	struct rp_def *def;
	int ret;

	if (!provider || rp_event_decl_read(&own, decl) != 0)
		return -EINVAL;
	event = aligned_alloc(_Alignof(max_align_t), sizeof(*event));
	if (!event)
		return -ENOMEM;
	memset(event, 0, sizeof(*event));
	rp_exporters_lock();
	pthread_mutex_lock(&rp_core.lock);
	ret = rp_provider_event(provider, own.id, own.version) ? -EEXIST : 0;
	if (ret == 0)
		ret = rp_def_get(provider->name, &own, &def);
	if (ret == 0) {
		ret = rp_site_add(provider, event, def, true);
		if (ret != 0)
			rp_def_put(def);
	}
	pthread_mutex_unlock(&rp_core.lock);
	rp_exporters_settle();
	rp_exporters_unlock();
	if (ret != 0) {
		free(event);
		return ret;
	}
	*ret_event = event;
	return 0;
}

RP_PUBLIC void rp_event_destroy(struct rp_event *event)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();

	if (!event)
		return;
	rp_exporters_lock();
	rp_exporters_withdraw_event(event);
	pthread_mutex_lock(&rp_core.lock);
	if (event->core && ((struct rp_site *)event->core)->heap)
		rp_site_remove(event->core);
	pthread_mutex_unlock(&rp_core.lock);
	rp_exporters_unlock();
}
