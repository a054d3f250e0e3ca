/* SPDX-License-Identifier: MIT */
/*
 * The kernel counts the tracers of an event in memory, without notifying the process. If the
 * program requests it, a thread polls all the counts and sets an exporter's bit in each event that
 * has tracers. So providers' callbacks are called for tracers, the listing shows them, and dynamic
 * events, whose enable word the kernel does not know, are enabled. This exporter writes nothing:
 * probes fire without it.
 */
#include "export/tracers.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/atomic.h"
#include "base/thread.h"
#include "core/exporters.h"
#include "core/kernel_probes.h"

/* Protected by the exporters' lock, except the interval. */
static struct {
	struct rp_export **exports;
	size_t count, space;
	uint32_t interval_ms;
} tracers;

static void look_at(const struct rp_export *export)
{
	rp_export_switch(export, rp_event_tracers(export->event) != 0);
}

static void *watch(void *data)
{
	(void)data;
	for (;;) {
		uint32_t interval_ms = rp_load_relaxed(&tracers.interval_ms);
		const struct timespec pause = {
			.tv_sec = interval_ms / 1000, .tv_nsec = interval_ms % 1000 * 1000000,
		};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		rp_exporters_lock();
		for (size_t i = 0; i < tracers.count; i++)
			look_at(tracers.exports[i]);
		rp_exporters_unlock();
	}
	return NULL;
}

static int start_thread(void)
{
	pthread_t thread;
	int ret = rp_thread_start(&thread, "ringpipe-tracer", watch, NULL);

	if (ret == 0)
		pthread_detach(thread);
	return ret;
}

/* If memory is short, these events are not watched. */
static void add(struct rp_export *const *exports, size_t count)
{
	struct rp_export **grown = rp_array_reserve(tracers.exports, tracers.count, &tracers.space,
						    count, sizeof(*grown));

	if (!grown)
		return;
	tracers.exports = grown;
	for (size_t i = 0; i < count; i++) {
		tracers.exports[tracers.count++] = exports[i];
		look_at(exports[i]);
	}
}

static bool is_among(const struct rp_export *export, struct rp_export *const *exports, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (exports[i] == export)
			return true;
	}
	return false;
}

static void take(struct rp_export *const *exports, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < tracers.count; i++) {
		if (!is_among(tracers.exports[i], exports, count))
			tracers.exports[kept++] = tracers.exports[i];
	}
	tracers.count = kept;
}

/* The probe fired before the exporters are called. */
static void write_nothing(struct rp_export *export, const struct rp_part *parts,
			  unsigned int part_count, uint64_t payload_bytes)
{
	(void)export;
	(void)parts;
	(void)part_count;
	(void)payload_bytes;
}

/* The child has the kernel's counts, but not the thread. */
static void fork_child(void)
{
	for (size_t i = 0; i < tracers.count; i++)
		look_at(tracers.exports[i]);
	(void)start_thread();
}

int rp_tracers_start(uint32_t interval_ms)
{
	static const struct rp_exporter_ops ops = {
		.size = sizeof(ops), .name = "tracers", .write = write_nothing, .add = add,
		.remove = take, .fork_child = fork_child,
	};
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct rp_exporter *exporter;
	static bool watched;
	int ret = 0;

	if (interval_ms == 0)
		return -EINVAL;
	rp_store_relaxed(&tracers.interval_ms, interval_ms);
	pthread_mutex_lock(&lock);
	if (!exporter)
		ret = rp_exporter_register(&ops, &exporter);
	if (ret == 0 && !watched)
		ret = start_thread();
	watched |= ret == 0;
	pthread_mutex_unlock(&lock);
	return ret;
}
