/* SPDX-License-Identifier: MIT */
/*
 * The interface between the library and an exporter module. A process may have two copies of the
 * library, so the module does not link to it, and receives a table of the functions that it needs.
 */
#ifndef RP_EXPORT_MODULE_HOST_H
#define RP_EXPORT_MODULE_HOST_H

#include <pthread.h>

#include <ringpipe/activity.h>

#include "base/thread.h"
#include "core/exporters.h"

struct rp_export_host {
	const char *version;		/* the module refuses another build */
	void (*lock)(void);		/* rp_exporters_lock() */
	void (*unlock)(void);
	void (*export_switch)(const struct rp_export *export, bool on);
	bool (*activity_get)(struct rp_activity *ret_activity);	/* false: the thread never had an
								   id */
	int (*thread_start)(pthread_t *ret_thread, const char *name, void *(*run)(void *),
			    void *data);
};

/*
 * The module's only function, called once: initialises the module and returns its operations.
 * Return: 0; -ENOTSUP: another version; -errno of thread creation.
 */
typedef int (*rp_export_module_entry)(const struct rp_export_host *host,
				      const struct rp_exporter_ops **ret_ops);

#define RP_EXPORT_MODULE_OPEN "rp_export_module_open"

#endif
