/* SPDX-License-Identifier: MIT */
/* usage: host COMPONENT CONTRACT. A host attaches a component that has this contract's version. */
#include "../process/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "contract.h"

RP_PROVIDER(shown, "Test-Component");
RP_PROVIDER(hidden, "Test-Component-Private");
RP_EVENT(shown, collected, 1, RP_LEVEL_INFORMATIONAL, KEYWORD_COLLECTIONS, RP_U32(number),
	 RP_STRING(why), RP_U16(instance));
RP_EVENT(shown, pinned, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U32(objects));
RP_EVENT(hidden, slept, 2, RP_LEVEL_VERBOSE, KEYWORD_MOVES);
RP_EVENT(hidden, moved, 1, RP_LEVEL_VERBOSE, KEYWORD_MOVES, RP_U64(bytes));

#define INSTANCE 77

static const struct test_functions *component;
static rp_component_entry entry;
static unsigned int contract, calls;
static uint16_t instance = INSTANCE;

/* The host adds its instance, which the component does not know. */
static void collected(void *data, uint32_t number, const char *why)
{
	calls++;
	check(shown_collected(number, why, *(const uint16_t *)data) == 0);
}

static void moved(void *data, uint64_t bytes)
{
	(void)data;
	calls++;
	check(hidden_moved(bytes) == 0);
}

static void slept(void *data)
{
	check(data == &instance && hidden_slept() == 0);
}

static void pinned(void *data, uint32_t objects)
{
	(void)data;
	calls++;
	check(shown_pinned(objects) == 0);
}

static struct test_events known = {
	.size = sizeof(known), .collected = collected, .moved = moved, .slept = slept,
	.pinned = pinned,
};

static struct rp_component_options options(void)
{
	return (struct rp_component_options){
		.size = sizeof(struct rp_component_options),
		.provider = shown_provider(),
		.private_provider = hidden_provider(),
		.events = &known,
		.data = &instance,
	};
}

static struct rp_component_link *attach(void)
{
	struct rp_component_options own = options();
	struct rp_component_link *link;

	check(rp_component_attach(entry, &own, &link) == 0);
	return link;
}

static struct rp_listener *listen_with(const char *provider, uint64_t keywords, uint8_t level)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = provider, .keywords = keywords, .level = level,
	};
	struct rp_session_options listening = {
		.size = sizeof(listening), .providers = &wanted, .provider_count = 1,
		.buffer_bytes = RP_SESSION_BUFFER_MIN,
	};
	struct rp_listener *listener;

	check(rp_listener_start(&listening, NULL, NULL, &listener) == 0);
	return listener;
}

static const struct rp_listener_event *next(struct rp_listener *listener, const char *name)
{
	static struct rp_listener_event event;

	event = (struct rp_listener_event)RP_LISTENER_EVENT_INIT;
	check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
	check(strcmp(event.name, name) == 0);
	return &event;
}

static void expect_end(struct rp_listener *listener)
{
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;

	check(rp_listener_drain(listener) == 0);
	check(rp_listener_next(listener, &event, -1) == -EPIPE);
	check(rp_listener_stop(listener, NULL) == 0);
}

static bool words_are(unsigned int provider, uint64_t keywords, uint64_t levels)
{
	const struct rp_component_words *words = &component->state->words[provider];

	return words->keywords == keywords && words->levels == levels;
}

static void component_follows_sessions_and_listeners_of_both_providers(void)
{
	struct rp_listener *early = listen_with("Test-Component", KEYWORD_MOVES, 2), *late;
	struct rp_component_link *link = attach();

	/* Levels 0, 1 and 2. */
	check(words_are(RP_COMPONENT_DEFAULT, KEYWORD_MOVES, 7));
	check(words_are(RP_COMPONENT_PRIVATE, 0, 0));
	late = listen_with("Test-Component", KEYWORD_COLLECTIONS, 4);
	check(words_are(RP_COMPONENT_DEFAULT, KEYWORD_MOVES | KEYWORD_COLLECTIONS, 31));
	check(rp_listener_stop(late, NULL) == 0);
	check(words_are(RP_COMPONENT_DEFAULT, KEYWORD_MOVES, 7));
	late = listen_with("Test-Component-Private", KEYWORD_MOVES, 5);
	check(words_are(RP_COMPONENT_PRIVATE, KEYWORD_MOVES, 63));
	check(rp_listener_stop(early, NULL) == 0);
	check(words_are(RP_COMPONENT_DEFAULT, 0, 0));
	check(rp_component_detach(link) == 0);
	check(words_are(RP_COMPONENT_PRIVATE, 0, 0));
	check(rp_listener_stop(late, NULL) == 0);
}

static void host_adds_what_the_component_does_not_know(void)
{
	struct rp_component_link *link = attach();
	struct rp_listener *listener = listen_with("Test-Component", UINT64_MAX, 5);
	const struct rp_listener_event *event;
	uint8_t expected[] = { 9, 0, 0, 0, 'f', 'u', 'l', 'l', 0, INSTANCE, 0 };
	struct rp_listener *private_listener = listen_with("Test-Component-Private", KEYWORD_MOVES,
							   5);

	component->fire_known(9, "full", 1, 5);
	next(private_listener, "moved");
	next(private_listener, "slept");
	expect_end(private_listener);
	event = next(listener, "collected");
	check(event->payload_bytes == sizeof(expected));
	check(memcmp(event->payload, expected, sizeof(expected)) == 0);
	if (contract >= 2)
		next(listener, "pinned");
	expect_end(listener);
	check(rp_component_detach(link) == 0);
}

static void disabled_event_calls_nothing(void)
{
	struct rp_component_link *link = attach();
	struct rp_listener *other = listen_with("Test-Component", KEYWORD_MOVES, 3);
	unsigned int calls_before = calls, evaluated = *component->evaluated;

	component->fire_known(1, "off", 1, 1);
	check(calls == calls_before && *component->evaluated == evaluated);
	check(rp_listener_stop(other, NULL) == 0);
	component->fire_known(1, "off", 1, 1);
	component->fire_dynamic(1, "off");
	check(calls == calls_before && *component->evaluated == evaluated);
	check(rp_component_detach(link) == 0);
}

static void dynamic_event_has_its_level_and_bytes(void)
{
	struct rp_component_link *link = attach();
	struct rp_listener *listener = listen_with("Test-Component", KEYWORD_COLLECTIONS, 3);
	const struct rp_listener_event *event;
	const char *expected = "Grown\0\3\0abc";

	check(component->fire_raw(RP_COMPONENT_DEFAULT, RP_LEVEL_INFORMATIONAL, "Quiet", "", 0)
	      == 0);
	check(component->fire_raw(RP_COMPONENT_PRIVATE, RP_LEVEL_ERROR, "Hidden", "", 0) == 0);
	check(component->fire_raw(RP_COMPONENT_DEFAULT, RP_LEVEL_ERROR, "Grown", "abc", 3) == 0);
	event = next(listener, "DynamicError");
	check(event->payload_bytes == 11 && memcmp(event->payload, expected, 11) == 0);
	check(event->level == RP_LEVEL_ERROR);
	component->fire_dynamic(3, NULL);
	event = next(listener, "DynamicWarning");
	check(strcmp(event->payload, "HeapResized") == 0);
	expect_end(listener);
	check(rp_component_detach(link) == 0);
}

/* The JSON text of the next event of the test's providers. */
static const char *next_json(struct rp_reader *reader, struct rp_reader_event *event)
{
	static char *text;
	size_t bytes;
	FILE *stream;

	free(text);
	do
		check(rp_reader_next(reader, event) == 1);
	while (strncmp(event->type->provider, "Test-Component", 14) != 0);
	stream = open_memstream(&text, &bytes);
	check(stream && rp_reader_print_json(event, stream) == 0 && fclose(stream) == 0);
	return text;
}

static void expect_json(struct rp_reader *reader, const char *name, const char *expected)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	const char *text = next_json(reader, &event);

	if (strcmp(text, expected) != 0)
		fprintf(stderr, "%s: %s\n", event.type->name, text);
	check(strcmp(event.type->name, name) == 0 && strcmp(text, expected) == 0);
	check(event.type->level == RP_LEVEL_WARNING);
}

static void described_event_follows_its_raw_event_in_a_trace(void)
{
	static const char *const fields =
		"{\"number\":7,\"text\":\"caf\303\251\",\"yes\":true,\"negative\":-5,\"byte\":200,"
		"\"small\":-300,\"medium\":60000,\"whole\":-70000,\"large\":-9223372036854775808,"
		"\"unsigned\":18446744073709551615,\"single\":0.5,\"double\":0.1,\"pointer\":4096,"
		"\"guid\":\"10325476-98ba-dcfe-0000-000000000000\",\"blob\":\"0102ff\"}";
	struct rp_component_link *link = attach();
	struct rp_session *session;
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_reader *reader;
	char whole[1000], path[64];

	snprintf(path, sizeof(path), "component-%d.nettrace", (int)getpid());
	session = session_to(path, "Test-Component", RP_SESSION_BUFFER_MIN);
	component->fire_dynamic(7, "caf\303\251");
	/* Bytes that no helper made are in the raw event only. */
	check(component->fire_raw(0, RP_LEVEL_WARNING, "Opaque", "\x89RP\x01\1\0\0\0\x07", 9) == 0);
	check(component->fire_raw(0, RP_LEVEL_WARNING, "Opaque", "\x89", 1) == 0);
	component->fire_dynamic(7, "caf\303\251");
	check(rp_session_stop(session, &stats) == 0);
	/* Only what the component wrote is counted. */
	check(stats.delivered == 4 && stats.lost == 0);
	check(rp_component_detach(link) == 0);
	check(rp_reader_open(path, &reader) == 0);
	snprintf(whole, sizeof(whole), "{\"name\":\"HeapResized\",\"payload\":%s}", fields);
	expect_json(reader, "DynamicWarning", whole);
	expect_json(reader, "HeapResized", fields);
	expect_json(reader, "DynamicWarning",
		    "{\"name\":\"Opaque\",\"payload\":\"895250010100000007\"}");
	expect_json(reader, "DynamicWarning", "{\"name\":\"Opaque\",\"payload\":\"89\"}");
	expect_json(reader, "DynamicWarning", whole);
	expect_json(reader, "HeapResized", fields);
	rp_reader_close(reader);
	check(unlink(path) == 0);
}

static void described_event_is_in_snapshots(void)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Component", .level = 5,
		.keywords = UINT64_MAX,
	};
	struct rp_session_options recording = {
		.size = sizeof(recording), .providers = &wanted, .provider_count = 1,
		.flags = RP_SESSION_OVERWRITE, .format = nettrace_version(),
	};
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	struct rp_component_link *link = attach();
	struct rp_session *recorder;
	uint64_t events, lost;
	char path[64];

	snprintf(path, sizeof(path), "component-snapshot-%d.nettrace", (int)getpid());
	check(rp_session_start(&recording, &recorder) == 0);
	component->fire_dynamic(1, "one");
	check(rp_session_snapshot(recorder, path, -1, &info) == 0);
	check(rp_session_stop(recorder, NULL) == 0);
	check(rp_component_detach(link) == 0);
	count_trace(path, "Test-Component", &events, &lost);
	check(events == 2 && lost == 0);
	check(unlink(path) == 0);
}

static unsigned int stops;

static void fire_while_stopping(void)
{
	stops++;
	component->fire_known(1, "late", 1, 1);
	check(component->fire_raw(0, RP_LEVEL_ERROR, "Late", "x", 1) == 0);
}

static void component_may_fire_until_its_stop_returns(void)
{
	struct rp_component_link *link = attach();
	struct rp_listener *listener = listen_with("Test-Component", UINT64_MAX, 5);
	unsigned int calls_before = calls;

	*component->stopping = fire_while_stopping;
	check(rp_component_detach(link) == 0);
	*component->stopping = NULL;
	/* The words are 0 when stop() begins, so only the unconditional call writes an event. */
	check(stops == 1 && calls == calls_before);
	next(listener, "DynamicError");
	/* Afterwards, a component that breaks the rule writes nothing and damages nothing. */
	check(component->fire_raw(0, RP_LEVEL_ERROR, "Illegal", "x", 1) == -EPIPE);
	expect_end(listener);
}

int main(int argc, char **argv)
{
	void *handle;

	check(argc == 3);
	contract = (unsigned int)atoi(argv[2]);
	handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	check(handle);
	component = dlsym(handle, "test_functions");
	entry = (rp_component_entry)(uintptr_t)dlsym(handle, RP_COMPONENT_ENTRY);
	check(component && entry);
	component_follows_sessions_and_listeners_of_both_providers();
	host_adds_what_the_component_does_not_know();
	disabled_event_calls_nothing();
	dynamic_event_has_its_level_and_bytes();
	described_event_follows_its_raw_event_in_a_trace();
	described_event_is_in_snapshots();
	component_may_fire_until_its_stop_returns();
	check(dlclose(handle) == 0);
	return 0;
}
