/* SPDX-License-Identifier: MIT */
/*
 * Counters that every process has. Those that a .NET runtime also has use its names and units,
 * because dotnet-counters shows System.Runtime by default. The other counters belong to the
 * provider ringpipe. Their values are computed when a reader observes them, and not stored.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "core/session_setup.h"
#include "counter/state.h"

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static int observe_cpu_time(struct rp_observation *observation, void *data)
{
	static const struct rp_counter_tag user = { "cpu.mode", "user" };
	static const struct rp_counter_tag system = { "cpu.mode", "system" };
	struct rusage usage;
	int ret;

	(void)data;
	getrusage(RUSAGE_SELF, &usage);
	ret = rp_observe(observation, seconds(usage.ru_utime), &user, 1);
	return ret ? ret : rp_observe(observation, seconds(usage.ru_stime), &system, 1);
}

/* In percent of all processors, since the last observation. */
static int observe_cpu_usage(struct rp_observation *observation, void *data)
{
	static double last_used;
	static uint64_t last_ns;
	uint64_t now_ns = rp_clock_monotonic_ns();
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct rusage usage;
	double used, part = 0;

	(void)data;
	getrusage(RUSAGE_SELF, &usage);
	used = seconds(usage.ru_utime) + seconds(usage.ru_stime);
	if (last_ns && now_ns > last_ns)
		part = (used - last_used) / ((double)(now_ns - last_ns) / 1e9);
	last_used = used;
	last_ns = now_ns;
	return rp_observe(observation, 100 * part / (double)(cpus > 0 ? cpus : 1), NULL, 0);
}

static int observe_cpu_count(struct rp_observation *observation, void *data)
{
	(void)data;
	return rp_observe(observation, (double)sysconf(_SC_NPROCESSORS_ONLN), NULL, 0);
}

/* `data`: the number of bytes in one unit of the counter. */
static int observe_working_set(struct rp_observation *observation, void *data)
{
	char text[128], *resident;
	ssize_t size = rp_file_read("/proc/self/statm", text, sizeof(text) - 1);

	if (size <= 0)
		return size < 0 ? (int)size : -EIO;
	text[size] = '\0';
	resident = strchr(text, ' ');
	if (!resident)
		return -EBADMSG;
	return rp_observe(observation, (double)strtoull(resident, NULL, 10) *
			  (double)sysconf(_SC_PAGESIZE) / *(const double *)data, NULL, 0);
}

/* The stat file's third field follows the last ')'; the number of threads is the 20th field. */
static int observe_threads(struct rp_observation *observation, void *data)
{
	char text[1024], *at;
	ssize_t size = rp_file_read("/proc/self/stat", text, sizeof(text) - 1);

	(void)data;
	if (size <= 0)
		return size < 0 ? (int)size : -EIO;
	text[size] = '\0';
	at = strrchr(text, ')');
	for (int field = 2; at && field < 20; field++)
		at = strchr(at + 1, ' ');
	return at ? rp_observe(observation, (double)strtoul(at, NULL, 10), NULL, 0) : -EBADMSG;
}

static int observe_switches(struct rp_observation *observation, void *data)
{
	static const struct rp_counter_tag voluntary = { "kind", "voluntary" };
	static const struct rp_counter_tag involuntary = { "kind", "involuntary" };
	struct rusage usage;
	int ret;

	(void)data;
	getrusage(RUSAGE_SELF, &usage);
	ret = rp_observe(observation, (double)usage.ru_nvcsw, &voluntary, 1);
	return ret ? ret : rp_observe(observation, (double)usage.ru_nivcsw, &involuntary, 1);
}

static int observe_delivered(struct rp_observation *observation, void *data)
{
	struct rp_totals totals;

	(void)data;
	rp_sessions_total(&totals);
	return rp_observe(observation, (double)totals.delivered, NULL, 0);
}

static int observe_lost(struct rp_observation *observation, void *data)
{
	struct rp_totals totals;

	(void)data;
	rp_sessions_total(&totals);
	return rp_observe(observation, (double)totals.lost, NULL, 0);
}

static int observe_memory(struct rp_observation *observation, void *data)
{
	struct rp_totals totals;

	(void)data;
	rp_sessions_total(&totals);
	return rp_observe(observation, (double)totals.memory_bytes, NULL, 0);
}

static int observe_lag(struct rp_observation *observation, void *data)
{
	struct rp_totals totals;

	(void)data;
	rp_sessions_total(&totals);
	return rp_observe(observation, (double)totals.lag_ns / 1e6, NULL, 0);
}

static double one = 1, million = 1e6;

static const struct row {
	const char *provider;
	uint8_t kind, hidden;
	const char *name, *unit, *display_name;
	int (*observe)(struct rp_observation *observation, void *data);
	void *data;
} rows[] = {
	{ "System.Runtime", RP_COUNTER_OBSERVED_GAUGE, RP_VIEW_METERS,
	  "cpu-usage", "%", "CPU Usage", observe_cpu_usage, NULL },
	{ "System.Runtime", RP_COUNTER_OBSERVED_GAUGE, RP_VIEW_METERS,
	  "working-set", "MB", "Working Set", observe_working_set, &million },
	{ "System.Runtime", RP_COUNTER_OBSERVED_SUM, RP_VIEW_EVENT_COUNTERS,
	  "dotnet.process.cpu.time", "s", "CPU time used by the process.",
	  observe_cpu_time, NULL },
	{ "System.Runtime", RP_COUNTER_OBSERVED_UPDOWN, RP_VIEW_EVENT_COUNTERS,
	  "dotnet.process.cpu.count", "{cpu}", "The number of processors available.",
	  observe_cpu_count, NULL },
	{ "System.Runtime", RP_COUNTER_OBSERVED_UPDOWN, RP_VIEW_EVENT_COUNTERS,
	  "dotnet.process.memory.working_set", "By", "Physical memory mapped to the process.",
	  observe_working_set, &one },
	{ "ringpipe", RP_COUNTER_OBSERVED_UPDOWN, 0, "threads", "{thread}",
	  "Threads of the process", observe_threads, NULL },
	{ "ringpipe", RP_COUNTER_OBSERVED_SUM, 0, "context-switches", "{switch}",
	  "Context switches of the process", observe_switches, NULL },
	{ "ringpipe", RP_COUNTER_OBSERVED_SUM, 0, "events-delivered", "{event}",
	  "Events delivered by all sessions", observe_delivered, NULL },
	{ "ringpipe", RP_COUNTER_OBSERVED_SUM, 0, "events-lost", "{event}",
	  "Events lost by all sessions", observe_lost, NULL },
	{ "ringpipe", RP_COUNTER_OBSERVED_UPDOWN, 0, "session-memory", "By",
	  "Rings and buffers of all sessions", observe_memory, NULL },
	{ "ringpipe", RP_COUNTER_OBSERVED_GAUGE, 0, "drain-lag", "ms",
	  "Time since the drain thread last looked", observe_lag, NULL },
};

void rp_builtin_create(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		struct rp_counter_decl decl = {
			.size = sizeof(decl),
			.kind = row->kind,
			.name = row->name,
			.unit = row->unit,
			.display_name = row->display_name,
			.observe = row->observe,
			.data = row->data,
		};

		/* If there is no memory, the process does not have this counter. */
		(void)rp_instrument_create(row->provider, &decl, row->hidden, NULL);
	}
}
