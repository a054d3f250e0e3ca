/* SPDX-License-Identifier: MIT */
/*
 * versions: uses every struct that may grow, and then does so in plugins.
 *
 * Usage: versions LIBRARY PLUGIN…
 *
 * It is built as a program and as a plugin, with the headers of version 1 and with those of a later
 * one (-DLATER: later.py), and runs with the library of either. A call must take as much of a
 * struct as both know, and members that only the caller knows must be zero.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/reader.h>
#include <ringpipe/ringpipe.h>

#define EVENTS 100u

#define check(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

#ifdef LATER
#define later_is_zero(sized) \
	(memcmp((sized).added_later, (const uint64_t[5]){ 0 }, sizeof((sized).added_later)) == 0)
#else
#define later_is_zero(sized) ((sized).size == sizeof(sized))
#endif

RP_PROVIDER(versions, "Test-Versions");
RP_EVENT(versions, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_STRING(text));
RP_EVENT(versions, other, 2, RP_LEVEL_INFORMATIONAL, 0x1);
RP_COUNTER(versions, total, NULL, NULL);

static unsigned int calls, rows;
static uint64_t keywords_seen;

static void on_state(struct rp_provider *provider, const struct rp_provider_state *state,
		     void *data)
{
	(void)provider, (void)data;
	check(state->size >= RP_PROVIDER_STATE_SIZE_V1);
	keywords_seen |= state->keywords;
	calls++;
}

static int on_row(const struct rp_enabled *enabled, void *data)
{
	check(enabled->size >= RP_ENABLED_SIZE_V1);
	rows += strcmp(enabled->provider, data) == 0 && enabled->session_id != 0;
	return 0;
}

static void write_events(void)
{
	for (uint64_t i = 0; i < EVENTS; i++) {
		check(versions_mark(i, "text") == 0);
		check(versions_other() == 0);
	}
	check(versions_total_add(5) == 0);
}

/* The library finds the second of the two providers by the size of the first. */
static struct rp_session_options options_for(struct rp_session_provider providers[2],
					     struct rp_event_filter *filter)
{
	static const uint32_t id = 1;
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;

	*filter = (struct rp_event_filter)RP_EVENT_FILTER_INIT;
	filter->enable = 1;
	filter->ids = &id;
	filter->id_count = 1;
	providers[0] = (struct rp_session_provider)RP_SESSION_PROVIDER_INIT;
	providers[0].name = "Test-Nobody";
	providers[1] = (struct rp_session_provider)RP_SESSION_PROVIDER_INIT;
	providers[1].name = "Test-Versions";
	providers[1].filter = filter;
	options.providers = providers;
	options.provider_count = 2;
	return options;
}

static void read_trace(const char *path, uint64_t at_least)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_reader *reader;
	uint64_t marks = 0;

	check(rp_reader_open(path, &reader) == 0);
	while (rp_reader_next(reader, &event) == 1) {
		check(later_is_zero(event));
		if (strcmp(event.type->provider, "Test-Versions") != 0)
			continue;
		check(strcmp(event.type->name, "mark") == 0);
		marks++;
	}
	check(marks >= at_least);
	check(rp_reader_get_stats(reader, &stats) == 0 && later_is_zero(stats));
	check(stats.ended && stats.lost == 0);
	check(rp_reader_get_info(reader, &info) == 0 && later_is_zero(info));
	check(info.process_id == (uint32_t)getpid());
	rp_reader_close(reader);
}

static void use_session(void)
{
	struct rp_session_provider providers[2];
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_event_filter filter;
	struct rp_session_options options = options_for(providers, &filter);
	struct rp_session *session;

	options.output_path = "versions.nettrace";
	check(rp_session_start(&options, &session) == 0);
	write_events();
	check(rp_session_stop(session, &stats) == 0);
	check(later_is_zero(stats));
	check(stats.delivered == EVENTS && stats.lost == 0 && stats.lost_by[RP_LOSS_FULL] == 0);
	read_trace(options.output_path, EVENTS);
}

static void use_recorder(void)
{
	struct rp_session_provider providers[2];
	struct rp_trigger_options watched = RP_TRIGGER_OPTIONS_INIT;
	struct rp_trigger_stats triggered = RP_TRIGGER_STATS_INIT;
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	struct rp_event_filter filter;
	struct rp_session_options options = options_for(providers, &filter);
	struct rp_triggers *triggers;
	struct rp_session *session;

	options.flags = RP_SESSION_OVERWRITE;
	watched.triggers = "Test-Versions:missing";
	watched.path = "triggered.nettrace";
	check(rp_session_start(&options, &session) == 0);
	check(rp_triggers_start(session, &watched, &triggers) == 0);
	write_events();
	check(rp_session_snapshot(session, "snapshot.nettrace", -1, &info) == 0);
	check(later_is_zero(info) && info.events >= EVENTS && info.from_ns <= info.to_ns);
	read_trace("snapshot.nettrace", EVENTS);
	check(rp_triggers_get_stats(triggers, &triggered) == 0);
	check(later_is_zero(triggered) && triggered.snapshots == 0);
	check(rp_triggers_stop(triggers, NULL) == 0);
	check(rp_session_stop(session, NULL) == 0);
}

static void use_listener(void)
{
	struct rp_session_provider providers[2];
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_event_filter filter;
	struct rp_session_options options = options_for(providers, &filter);
	struct rp_value value = RP_VALUE_INIT;
	struct rp_listener *listener;
	struct rp_fields fields;

	calls = rows = 0;
	keywords_seen = 0;
	check(rp_listener_start(&options, NULL, NULL, &listener) == 0);
	check(rp_provider_set_callback(versions_provider(), on_state, NULL) == 0);
	check(calls > 0 && keywords_seen == UINT64_MAX);
	check(rp_enabled_list(on_row, (void *)(uintptr_t)"Test-Versions") == 0 && rows > 0);
	write_events();
	for (uint64_t i = 0; i < EVENTS; i++) {
		check(rp_listener_next(listener, &event, -1) == 1);
		check(later_is_zero(event) && event.id == 1);
		rp_listener_get_fields(&event, &fields);
		check(rp_fields_next(&fields, &value) == 1 && later_is_zero(value));
		check(value.u64 == i);
		check(rp_fields_find(&fields, "text", &value) == 0 && value.size_bytes == 4);
	}
	check(rp_listener_stop(listener, NULL) == 0);
	check(rp_provider_set_callback(versions_provider(), NULL, NULL) == 0);
}

static void use_dynamic(void)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;
	struct rp_prepare_options prepared = RP_PREPARE_OPTIONS_INIT;
	struct rp_counter_decl counted = RP_COUNTER_DECL_INIT;
	struct rp_event_decl declared = RP_EVENT_DECL_INIT;
	struct rp_provider *provider;
	struct rp_counter *counter;
	struct rp_event *event;

	prepared.what = RP_PREPARE_SESSIONS | RP_PREPARE_COUNTERS;
	check(rp_prepare(&prepared) == 0);
	check(rp_provider_create("Test-Versions-Dynamic", NULL, NULL, &provider) == 0);
	declared.id = 7;
	declared.name = "made";
	check(rp_event_create(provider, &declared, &event) == 0);
	counted.kind = RP_COUNTER_SUM;
	counted.name = "made";
	check(rp_counter_create(provider, &counted, &counter) == 0);
	check(rp_counter_add(counter, 3) == 0);
	check(rp_counter_read(counter, &reading) == 0 && later_is_zero(reading));
	check(reading.value > 2.5 && reading.value < 3.5);
	check(rp_counter_destroy(counter) == 0);
	rp_event_destroy(event);
	check(rp_provider_destroy(provider) == 0);
}

/* The program has this function, and so has each plugin. */
RP_PUBLIC void use_everything(void);

RP_PUBLIC void use_everything(void)
{
	use_session();
	use_recorder();
	use_listener();
	use_dynamic();
}

#ifndef PLUGIN
/* Whether the process runs with the library that the test names. */
static bool is_loaded(const char *library)
{
	char wanted[PATH_MAX], loaded[PATH_MAX];
	Dl_info info;

	return dladdr((void *)(uintptr_t)rp_session_start, &info) != 0 &&
	       realpath(info.dli_fname, loaded) && realpath(library, wanted) &&
	       strcmp(wanted, loaded) == 0;
}

/* A folder of its own, where nothing else writes files of these names. */
static void enter_folder(char folder[PATH_MAX])
{
	const char *parent = getenv("TMPDIR");

	snprintf(folder, PATH_MAX, "%s/versions-XXXXXX", parent ? parent : "/tmp");
	check(mkdtemp(folder) && chdir(folder) == 0);
}

static void leave_folder(const char *folder)
{
	check(unlink("versions.nettrace") == 0 && unlink("snapshot.nettrace") == 0);
	check(rmdir(folder) == 0);
}

int main(int argc, char **argv)
{
	char folder[PATH_MAX];

	check(argc > 1 && is_loaded(argv[1]));
	for (int i = 2; i < argc; i++)
		check((argv[i] = realpath(argv[i], NULL)) != NULL);
	enter_folder(folder);
	use_everything();
	for (int i = 2; i < argc; i++) {
		void *plugin = dlopen(argv[i], RTLD_NOW), *symbol;
		void (*use)(void);

		check(plugin);
		symbol = dlsym(plugin, "use_everything");
		check(symbol);
		memcpy(&use, &symbol, sizeof(use));
		use();
		use_everything();
		check(dlclose(plugin) == 0);
		free(argv[i]);
	}
	leave_folder(folder);
	return 0;
}
#endif
