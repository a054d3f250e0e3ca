/* SPDX-License-Identifier: MIT */
/*
 * Tests events with ids derived from their names, two events with the same id, and objects that
 * were built with headers from before version 1 or of a later version. Without arguments, the
 * program starts itself again and reads the library's reports on standard error.
 */
#include "check.h"

#include <errno.h>
#include <stdbool.h>

RP_PROVIDER(clash, "Test-Clash");
RP_EVENT(clash, placed, RP_EVENT_ID_AUTO, RP_LEVEL_INFORMATIONAL, 0, RP_U64(n));
/* The names of these two events have the same hash. */
RP_EVENT(clash, event81, RP_EVENT_ID_AUTO, RP_LEVEL_INFORMATIONAL, 0, RP_U64(n));
RP_EVENT(clash, event538, RP_EVENT_ID_AUTO, RP_LEVEL_INFORMATIONAL, 0, RP_U64(n));
RP_EVENT(clash, first, 7, RP_LEVEL_INFORMATIONAL, 0, RP_U64(n));
RP_EVENT(clash, second, 7, RP_LEVEL_INFORMATIONAL, 0, RP_U64(n));

/* Compute an id: 64-bit FNV-1a over the name and its NUL, mapped to 32,768 and up. */
static uint32_t id_of(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	size_t i = 0;

	do
		hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3ull;
	while (name[i++]);
	return 32768 + (uint32_t)(hash % (65534 - 32768 + 1));
}

static void expect(struct rp_listener *listener, const char *name, uint32_t id)
{
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;

	check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
	check(strcmp(event.name, name) == 0 && event.id == id);
}

/* The size of this object ends before its tables, so the library must not read the tables. */
static void register_older_object(void)
{
	static struct rp_object older = {
		.size = RP_OBJECT_SIZE_V1 - sizeof(void *),
		.events = (struct rp_event **)16, .events_end = (struct rp_event **)24,
	};

	rp_object_register(&older);
	check(!older.registered);
	rp_object_unregister(&older);
}

/* Declarations as in the headers of a later version, which added a member to each. */
struct later_provider {
	struct rp_provider_decl decl;
	uint64_t added;
};

struct later_event {
	struct rp_event_decl decl;
	uint64_t added;
};

struct later_counter {
	struct rp_counter_decl decl;
	uint64_t added;
};

#define LATER_PROVIDER(title, member) \
	{ .decl = { .size = sizeof(struct later_provider), .name = title }, .added = member }
#define LATER_EVENT(owner, title, number, member) \
	{ .decl = { .size = sizeof(struct later_event), .id = number, .provider = &(owner).decl, \
		    .name = title, .level = RP_LEVEL_INFORMATIONAL }, .added = member }
#define LATER_COUNTER(owner, title, sort, member) \
	{ .decl = { .size = sizeof(struct later_counter), .kind = sort, \
		    .provider = &(owner).decl, .name = title }, .added = member }

static struct later_provider zero_provider = LATER_PROVIDER("Test-Clash-Zero", 0);
static struct later_provider set_provider = LATER_PROVIDER("Test-Clash-Set", 1);
static struct later_event event_decls[] = {
	LATER_EVENT(zero_provider, "zero", 1, 0),
	LATER_EVENT(zero_provider, "set", 2, 1),
	LATER_EVENT(zero_provider, "short", 3, 0),
	LATER_EVENT(zero_provider, "", 4, 0),
	LATER_EVENT(set_provider, "orphan", 5, 0),
};
static struct later_counter counter_decls[] = {
	LATER_COUNTER(zero_provider, "zero", RP_COUNTER_SUM, 0),
	LATER_COUNTER(zero_provider, "set", RP_COUNTER_SUM, 1),
	LATER_COUNTER(zero_provider, "short", RP_COUNTER_SUM, 0),
	LATER_COUNTER(zero_provider, "kindless", 0, 0),
	LATER_COUNTER(zero_provider, "zero", RP_COUNTER_UPDOWN, 0),
	LATER_COUNTER(set_provider, "orphan", RP_COUNTER_SUM, 0),
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Only declarations whose new members are zero are registered. */
static void register_later_object(void)
{
	static struct rp_event events[COUNT(event_decls)], *event_table[COUNT(event_decls)];
	static struct rp_counter counters[COUNT(counter_decls)],
		*counter_table[COUNT(counter_decls)];
	static struct rp_provider_decl *providers[] = { &zero_provider.decl, &set_provider.decl };
	static struct rp_object later = {
		.size = sizeof(later), .events = event_table,
		.events_end = event_table + COUNT(event_table), .providers = providers,
		.providers_end = providers + COUNT(providers), .counters = counter_table,
		.counters_end = counter_table + COUNT(counter_table),
	};

	event_decls[2].decl.size = RP_EVENT_DECL_SIZE_V1 - 1;
	counter_decls[2].decl.size = RP_COUNTER_DECL_SIZE_V1 - 1;
	for (size_t i = 0; i < COUNT(events); i++) {
		events[i].decl = &event_decls[i].decl;
		event_table[i] = &events[i];
	}
	for (size_t i = 0; i < COUNT(counters); i++) {
		counters[i].kind = counter_decls[i].decl.kind;
		counters[i].decl = &counter_decls[i].decl;
		counter_table[i] = &counters[i];
	}
	rp_object_register(&later);
	check(zero_provider.decl.core && !set_provider.decl.core);
	for (size_t i = 0; i < COUNT(events); i++)
		check(!events[i].core == (i > 0));
	for (size_t i = 0; i < COUNT(counters); i++)
		check(!counters[i].core == (i > 0));
	rp_object_unregister(&later);
	check(!zero_provider.decl.core && !events[0].core && !counters[0].core);
}

static int be_loaded(void)
{
	struct rp_listener *listener = listen_to("Test-Clash");
	const char *kept = clash_event81_enabled() ? "event81" : "event538";
	const char *explicit = clash_first_enabled() ? "first" : "second";

	check(clash_event81_enabled() != clash_event538_enabled());
	check(clash_first_enabled() != clash_second_enabled());
	check(id_of("event81") == id_of("event538"));
	check(clash_placed(1) == 0);
	expect(listener, "placed", id_of("placed"));
	check(clash_event81(1) == 0 && clash_event538(2) == 0);
	expect(listener, kept, id_of(kept));
	check(clash_first(1) == 0 && clash_second(2) == 0);
	expect(listener, explicit, 7);
	check(rp_listener_stop(listener, NULL) == 0);
	register_older_object();
	register_later_object();
	return 0;
}

/* A dynamic event derives the same id from its name, and is refused if the id is taken. */
static void create_dynamic(void)
{
	struct rp_event_decl decl = RP_EVENT_DECL_INIT;
	struct rp_provider *provider;
	struct rp_event *event, *clashing;
	struct rp_listener *listener = listen_to("Test-Clash-Dynamic");

	check(rp_provider_create("Test-Clash-Dynamic", NULL, NULL, &provider) == 0);
	decl.id = RP_EVENT_ID_AUTO;
	decl.name = "event81";
	check(rp_event_create(provider, &decl, &event) == 0);
	check(rp_event_write(event, NULL, 0) == 0);
	expect(listener, "event81", id_of("event81"));
	decl.name = "event538";
	check(rp_event_create(provider, &decl, &clashing) == -EEXIST);
	decl.id = id_of("event81");
	check(rp_event_create(provider, &decl, &clashing) == -EEXIST);
	/* Another version of the event has an event of its own. */
	decl.version = 1;
	check(rp_event_create(provider, &decl, &event) == 0);
	check(rp_event_write(event, NULL, 0) == 0);
	expect(listener, "event538", id_of("event81"));
	decl.id = RP_EVENT_ID_AUTO - 1;
	check(rp_event_create(provider, &decl, &clashing) == -EINVAL);
	check(rp_listener_stop(listener, NULL) == 0);
	check(rp_provider_destroy(provider) == 0);
}

/* The lines about the later object, in this order. */
static const char *const later_reports[] = {
	"ringpipe: provider Test-Clash-Set is left out, with its events and counters: "
	"it needs a later version of the library\n",
	"ringpipe: event set of Test-Clash-Zero is left out: "
	"it needs a later version of the library\n",
	"ringpipe: an event is left out: it has headers from before version 1\n",
	"ringpipe: event ? of Test-Clash-Zero is left out: its declaration is invalid\n",
	"ringpipe: counter set of Test-Clash-Zero is left out: "
	"it needs a later version of the library\n",
	"ringpipe: a counter is left out: it has headers from before version 1\n",
	"ringpipe: counter kindless of Test-Clash-Zero is left out: its declaration is invalid\n",
	"ringpipe: counter zero of Test-Clash-Zero is left out: there is one of this name already, "
	"of another kind or dynamic\n",
};

static bool both_are_in(const char *line, const char *one, const char *other)
{
	return strstr(line, one) && strstr(line, other) && strstr(line, "Test-Clash");
}

int main(int argc, char **argv)
{
	unsigned int automatic = 0, explicit = 0, older = 0, later = 0, lines = 0;
	char command[4200], line[500];
	FILE *reports;

	if (argc > 1)
		return be_loaded();
	create_dynamic();
	snprintf(command, sizeof(command), "'%s' loaded 2>&1 >/dev/null", argv[0]);
	reports = popen(command, "r");
	check(reports);
	while (fgets(line, sizeof(line), reports)) {
		automatic += both_are_in(line, "event81", "event538");
		explicit += both_are_in(line, "first", "second");
		older += strstr(line, "an object has headers from before version 1") != NULL;
		later += later < COUNT(later_reports) && strcmp(line, later_reports[later]) == 0;
		lines++;
	}
	check(pclose(reports) == 0);
	check(automatic == 1 && explicit == 1 && older == 1);
	check(later == COUNT(later_reports) && lines == later + 3);
	return 0;
}
