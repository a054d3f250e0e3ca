/* SPDX-License-Identifier: MIT */
/*
 * Calls of providers' callbacks. All functions need the lock, unless they state otherwise.
 */
#ifndef RP_CORE_NOTICES_H
#define RP_CORE_NOTICES_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/types.h>
#include <urcu/list.h>

struct rp_provider;
struct rp_session;
struct rp_watcher;

/* A queued call of a provider's callback. */
struct rp_notice {
	struct cds_list_head node;
	struct rp_guid source;
	bool enabled;
	struct rp_watcher *watcher;	/* the only recipient, or NULL for all */
	char *filter_data;
};

void rp_source_guid(uint64_t id, struct rp_guid *ret_guid);
int rp_notice_add(struct rp_provider *provider, uint64_t source, bool enabled,
		  const char *filter_data);
void rp_notice_add_session(struct rp_provider *provider, const struct rp_session *session,
			   bool enabled);
int rp_notice_add_watcher(struct rp_provider *provider, struct rp_watcher *watcher);
void rp_notices_add(struct rp_session *session, bool enabled);	/* for all wanted providers */
void rp_notices_drop(struct rp_provider *provider);
void rp_notices_deliver(void);		/* releases the lock in between */
void rp_notices_run(bool async);	/* without the lock: delivers queued notices */
/* Whether the calling thread is inside the provider's callback. */
bool rp_notices_is_inside(const struct rp_provider *provider);

#endif
