/* SPDX-License-Identifier: MIT */
/*
 * libringpipe-lttng.so: registers ringpipe's events as tracepoints of LTTng-UST, and sets the
 * enable bits of the events that LTTng enables.
 *
 * LTTng enables a tracepoint by setting its `state`, without notice. So a thread polls all
 * tracepoints twenty times a second. When an event is registered, and in a child after fork, it
 * checks them immediately. Every function here runs under the exporters' lock, except the write
 * function.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lttng/ust-fork.h>

#include "base/atomic.h"
#include "export/module_host.h"
#include "modules/lttng/tracepoint.h"

#define LOOK_NS 50000000L
#define BUCKETS 1024u

/* Declared here because lttng/tracepoint.h defines a constructor in each file that includes it. */
int lttng_ust_tracepoint_module_register(struct lttng_ust_tracepoint *const *start, int count);
int lttng_ust_tracepoint_module_unregister(struct lttng_ust_tracepoint *const *start);

int rp_export_module_open(const struct rp_export_host *from,
			  const struct rp_exporter_ops **ret_ops);

static struct rp_export_host host;
static struct cds_list_head events = CDS_LIST_HEAD_INIT(events);
static struct cds_hlist_head by_def[BUCKETS], by_name[BUCKETS];
static sigset_t signals_before;

static struct cds_hlist_head *def_bucket(const struct rp_event_def *def)
{
	return &by_def[def->index % BUCKETS];
}

static struct cds_hlist_head *name_bucket(const char *provider, const char *name)
{
	uint32_t hash = 0x811c9dc5u;

	while (*provider)	/* FNV-1a */
		hash = (hash ^ (uint8_t)*provider++) * 0x1000193u;
	while (*name)
		hash = (hash ^ (uint8_t)*name++) * 0x1000193u;
	return &by_name[hash % BUCKETS];
}

static bool name_is_taken(const char *provider, const char *name)
{
	struct rp_lttng_event *event;

	cds_hlist_for_each_entry_2(event, name_bucket(provider, name), by_name) {
		if (strcmp(event->provider_name, provider) == 0 &&
		    strcmp(event->event_name, name) == 0)
			return true;
	}
	return false;
}

/* Sets or clears the event's enable bits, as LTTng's state requires. */
static void look_at(struct rp_lttng_event *event)
{
	bool on = rp_load_relaxed(&event->tracepoint.state) != 0;

	if (on == event->on)
		return;
	event->on = on;
	for (size_t i = 0; i < event->export_count; i++)
		host.export_switch(event->exports[i], on);
}

static void look_at_all(void)
{
	struct rp_lttng_event *event;

	cds_list_for_each_entry(event, &events, node)
		look_at(event);
}

static void *watch(void *data)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };

	(void)data;
	for (;;) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		host.lock();
		look_at_all();
		host.unlock();
	}
	return NULL;
}

static int start_watching(void)
{
	pthread_t thread;
	int ret = host.thread_start(&thread, "ringpipe-lttng", watch, NULL);

	if (ret == 0)
		pthread_detach(thread);
	return ret;
}

static struct rp_lttng_event *find(const struct rp_event_def *def)
{
	struct rp_lttng_event *event;

	cds_hlist_for_each_entry_2(event, def_bucket(def), by_def) {
		if (event->def == def)
			return event;
	}
	return NULL;
}

/* Registers the event with LTTng, which enables it before it returns if a session wants it. */
static struct rp_lttng_event *make(const struct rp_event_def *def)
{
	struct rp_lttng_event *event = rp_lttng_event_create(def, name_is_taken);

	if (!event)
		return NULL;
	event->registered = lttng_ust_probe_register(&event->probe);
	if (!event->registered) {
		rp_lttng_event_destroy(event);
		return NULL;
	}
	if (lttng_ust_tracepoint_module_register(&event->tracepoint_pointer, 1) != 0) {
		lttng_ust_probe_unregister(event->registered);
		rp_lttng_event_destroy(event);
		return NULL;
	}
	cds_hlist_add_head(&event->by_def, def_bucket(def));
	cds_hlist_add_head(&event->by_name, name_bucket(event->provider_name, event->event_name));
	cds_list_add_tail(&event->node, &events);
	return event;
}

static void unmake(struct rp_lttng_event *event)
{
	bool kept;

	cds_list_del(&event->node);
	cds_hlist_del(&event->by_def);
	cds_hlist_del(&event->by_name);
	lttng_ust_probe_unregister(event->registered);
	/*
	 * When an event is removed, LTTng-UST 2.13 releases only one of its triggers. The others
	 * refer to its description until they are removed, so the description is then never freed.
	 */
	kept = rp_load_relaxed(&event->tracepoint.probes) != NULL;
	lttng_ust_tracepoint_module_unregister(&event->tracepoint_pointer);
	if (!kept)
		rp_lttng_event_destroy(event);
}

static bool add_word(struct rp_lttng_event *event, struct rp_export *export)
{
	if (event->export_count == event->export_capacity) {
		size_t capacity = event->export_capacity ? 2 * event->export_capacity : 1;
		struct rp_export **grown = realloc(event->exports, capacity * sizeof(*grown));

		if (!grown)
			return false;
		event->exports = grown;
		event->export_capacity = capacity;
	}
	event->exports[event->export_count++] = export;
	export->data = event;
	return true;
}

static void on_add(struct rp_export *const *exports, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct rp_lttng_event *event = find(exports[i]->def);

		if (!event)
			event = make(exports[i]->def);
		if (!event)
			continue;
		look_at(event);
		if (add_word(event, exports[i]))
			host.export_switch(exports[i], event->on);
		else if (event->export_count == 0)
			unmake(event);
	}
}

static void on_remove(struct rp_export *const *exports, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct rp_lttng_event *event = exports[i]->data;

		for (size_t k = 0; event && k < event->export_count; k++) {
			if (event->exports[k] != exports[i])
				continue;
			event->exports[k] = event->exports[--event->export_count];
			if (event->export_count == 0) {
				unmake(event);
				event = NULL;
			}
		}
	}
}

/* LTTng's own library for forks already does all of this. */
static bool has_fork_library(void)
{
	void *handle = dlopen("liblttng-ust-fork.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (handle)
		dlclose(handle);
	return handle != NULL;
}

static bool forks_by_itself;

static void before_fork(void)
{
	if (!forks_by_itself)
		lttng_ust_before_fork(&signals_before);
}

static void after_fork_in_parent(void)
{
	if (!forks_by_itself)
		lttng_ust_after_fork_parent(&signals_before);
}

/* In the child the enable bits are clear, whatever LTTng's state is. */
static void after_fork_in_child(void)
{
	struct rp_lttng_event *event;

	if (!forks_by_itself)
		lttng_ust_after_fork_child(&signals_before);
	cds_list_for_each_entry(event, &events, node)
		event->on = false;
	look_at_all();
	(void)start_watching();
}

static const struct rp_exporter_ops ops = {
	.size = sizeof(ops), .name = "lttng", .write = rp_lttng_write, .add = on_add,
	.remove = on_remove, .fork_prepare = before_fork, .fork_parent = after_fork_in_parent,
	.fork_child = after_fork_in_child,
};

__attribute__((visibility("default"))) int
rp_export_module_open(const struct rp_export_host *from, const struct rp_exporter_ops **ret_ops)
{
	int ret;

	if (strcmp(from->version, RP_VERSION_STRING) != 0)
		return -ENOTSUP;
	host = *from;
	rp_lttng_activity_get = host.activity_get;
	forks_by_itself = has_fork_library();
	ret = start_watching();
	if (ret == 0)
		*ret_ops = &ops;
	return ret;
}
