/* SPDX-License-Identifier: MIT */
/*
 * Between the library and a module that is an exporter. The module links nothing of the library, of
 * which a process may have two copies: it gets a table of what it needs.
 */
#ifndef RP_EXPORT_MODULE_HOST_H
#define RP_EXPORT_MODULE_HOST_H

#include <pthread.h>

#include <ringpipe/activity.h>

#include "base/thread.h"
#include "core/exporters.h"

struct rp_export_host {
	const char *version;		/* a module of another build is not for us */
	void (*lock)(void);		/* rp_exporters_lock() */
	void (*unlock)(void);
	void (*export_switch)(const struct rp_export *export, bool on);
	bool (*activity_get)(struct rp_activity *ret_activity);	/* false: it never had any */
	int (*thread_start)(pthread_t *ret_thread, const char *name, void *(*run)(void *),
			    void *data);
};

/*
 * The module's only function: makes it ready and gives its operations; called once. 0, or -errno:
 * -ENOTSUP for another version, or why there is no thread.
 */
typedef int (*rp_export_module_entry)(const struct rp_export_host *host,
				      const struct rp_exporter_ops **ret_ops);

#define RP_EXPORT_MODULE_OPEN "rp_export_module_open"

#endif
