/* SPDX-License-Identifier: MIT */
/*
 * The table of the host (ringpipe/host.h) that is registered. A published table never changes and
 * is never freed, so signal handlers may use it.
 */
#ifndef RP_BASE_HOST_TABLE_H
#define RP_BASE_HOST_TABLE_H

#include <ringpipe/host.h>

#include "base/atomic.h"

extern const struct rp_host *rp_host_table;	/* atomic; NULL: none is registered */

/* Copy and publish a table that rp_sized_read() filled. Return: 0; -EBUSY; -ENOMEM. */
int rp_host_publish(const struct rp_host *host);
void rp_host_retract(void);

/* Return: the table, or NULL if no host is registered. Context: any, signal handlers included. */
static inline const struct rp_host *rp_host_get(void)
{
	return rp_load_acquire(&rp_host_table);
}

/* Return: what the process is doing; RP_HOST_RUNNING without a host. Context: any. */
enum rp_host_process_state rp_host_state(void);

/*
 * Return: the table, or NULL if no host is registered or its callbacks must not run now.
 * Context: any, signal handlers included.
 */
const struct rp_host *rp_host_running(void);

#endif
