/* SPDX-License-Identifier: MIT */
#include "export/lttng.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/module.h"
#include "base/text.h"
#include "core/activity_slots.h"
#include "export/module_host.h"

#define MODULE "libringpipe-lttng.so"

static bool get_activity(struct rp_activity *ret_activity)
{
	if (!rp_thread_ring.has_ids)
		return false;
	rp_activity_read(ret_activity);
	return true;
}

static int load(char *ret_reason, size_t space)
{
	static const struct rp_export_host host = {
		.version = RP_VERSION_STRING,
		.lock = rp_exporters_lock, .unlock = rp_exporters_unlock,
		.export_switch = rp_export_switch, .activity_get = get_activity,
		.thread_start = rp_thread_start,
	};
	const struct rp_exporter_ops *ops;
	struct rp_exporter *exporter;
	rp_export_module_entry open_module;
	int ret;

	*(void **)&open_module = rp_module_load(MODULE, RP_EXPORT_MODULE_OPEN, ret_reason, space);
	if (!open_module)
		return -ENOENT;
	ret = open_module(&host, &ops);
	return ret == 0 ? rp_exporter_register(ops, &exporter) : ret;
}

int rp_lttng_load(char *ret_reason, size_t space)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool loaded;
	int ret = 0;

	*ret_reason = '\0';
	pthread_mutex_lock(&lock);
	if (!loaded)
		ret = load(ret_reason, space);
	loaded |= ret == 0;
	pthread_mutex_unlock(&lock);
	if (ret != 0 && !*ret_reason)
		snprintf(ret_reason, space, "%s", rp_text_error(-ret));
	return ret;
}

static bool has_socket(const char *directory, const char *below)
{
	static const char begin[] = "lttng-ust-sock-";
	struct dirent *entry;
	bool found = false;
	char path[PATH_MAX];
	DIR *entries;

	if (!directory || !*directory ||
	    (size_t)snprintf(path, sizeof(path), "%s%s", directory, below) >= sizeof(path))
		return false;
	entries = opendir(path);
	while (entries && !found && (entry = readdir(entries)))
		found = strncmp(entry->d_name, begin, sizeof(begin) - 1) == 0;
	if (entries)
		closedir(entries);
	return found;
}

bool rp_lttng_has_daemon(void)
{
	const char *home = secure_getenv("LTTNG_HOME");

	if (!home)
		home = secure_getenv("HOME");
	return has_socket("/var/run/lttng", "") ||
	       has_socket(secure_getenv("LTTNG_UST_APP_PATH"), "") || has_socket(home, "/.lttng");
}
