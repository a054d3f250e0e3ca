/* SPDX-License-Identifier: MIT */
/*
 * Tests events with ids derived from their names, two events with the same id, and an object that
 * was built with headers from before version 1. Without arguments, the program starts itself again
 * and reads the library's reports on standard error.
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
	decl.id = RP_EVENT_ID_AUTO - 1;
	check(rp_event_create(provider, &decl, &clashing) == -EINVAL);
	check(rp_listener_stop(listener, NULL) == 0);
	check(rp_provider_destroy(provider) == 0);
}

static bool both_are_in(const char *line, const char *one, const char *other)
{
	return strstr(line, one) && strstr(line, other) && strstr(line, "Test-Clash");
}

int main(int argc, char **argv)
{
	unsigned int automatic = 0, explicit = 0, older = 0;
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
		older += strstr(line, "from before version 1") != NULL;
	}
	check(pclose(reports) == 0);
	check(automatic == 1 && explicit == 1 && older == 1);
	return 0;
}
