/* SPDX-License-Identifier: MIT */
/* Providers, and the tables of an object that declares some. */
#ifndef RP_CORE_PROVIDER_LIST_H
#define RP_CORE_PROVIDER_LIST_H

#include <pthread.h>
#include <stdbool.h>

#include <ringpipe/provider.h>
#include <urcu/list.h>

#include "core/exporter_set.h"

struct rp_provider {
	struct cds_list_head node;	/* in core.providers */
	struct cds_list_head sites;
	struct cds_list_head notices;	/* struct rp_notice, oldest first */
	char *name;
	bool declared;			/* declared with RP_PROVIDER */
	bool by_name;			/* "*" does not select it */
	bool dead;			/* no further callbacks */
	bool leaving;			/* already withdrawn from exporters */
	bool in_callback;
	pthread_t caller;		/* while in_callback */
	rp_provider_callback callback;
	void *data;
	struct cds_list_head watchers;	/* struct rp_watcher; unchanged while in_callback */
	struct rp_export_state reported[RP_EXPORTERS_MAX];	/* by exporter */
};

/* Whether changes of the provider's state cause notices. With the lock. */
static inline bool rp_provider_is_observed(struct rp_provider *provider)
{
	return provider->callback || !cds_list_empty(&provider->watchers);
}

/*
 * Copy the declaration of a provider. Without the lock. Return: 0; -EINVAL: no provider can be made
 * of it.
 */
int rp_provider_decl_read(struct rp_provider_decl *ret_decl, const struct rp_provider_decl *decl);

/* Register and unregister the tables of an object. Without the lock. */
void rp_core_register(struct rp_object *object);
void rp_core_unregister(struct rp_object *object);

#endif
