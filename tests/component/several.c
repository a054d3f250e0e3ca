/* SPDX-License-Identifier: MIT */
/*
 * usage: several COMPONENT COMPONENT COMPONENT. A host attaches several components, some of which
 * share providers, and unloads each of them while the others continue.
 */
#include "../process/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "contract.h"

RP_PROVIDER(first, "Test-Several");
RP_PROVIDER(second, "Test-Several-Other");
RP_EVENT(first, pinned, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(objects));
RP_EVENT(second, pinned, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(objects));

#define COMPONENTS 3u
#define ROUNDS 60u
#define EVENTS 5u		/* of a component in each round */

struct loaded {
	const char *path;
	void *handle;
	const struct test_functions *functions;
	struct rp_component_link *link;
	unsigned int known_calls;
};

static struct loaded loaded[COMPONENTS];

static void pinned(void *data, uint32_t objects)
{
	struct loaded *one = data;

	one->known_calls++;
	check(first_pinned(objects) == 0);
}

static struct test_events known = { .size = sizeof(known), .pinned = pinned };

static rp_component_entry entry_of(const struct loaded *one)
{
	return (rp_component_entry)(uintptr_t)dlsym(one->handle, RP_COMPONENT_ENTRY);
}

static void load(struct loaded *one)
{
	one->handle = dlopen(one->path, RTLD_NOW | RTLD_LOCAL);
	check(one->handle);
	one->functions = dlsym(one->handle, "test_functions");
	check(one->functions && entry_of(one));
}

static void attach(struct loaded *one, struct rp_provider *provider,
		   struct rp_provider *private_provider)
{
	struct rp_component_options options = RP_COMPONENT_OPTIONS_INIT;

	options.provider = provider;
	options.private_provider = private_provider;
	options.events = &known;
	options.data = one;
	check(rp_component_attach(entry_of(one), &options, &one->link) == 0);
}

static void detach(struct loaded *one)
{
	check(rp_component_detach(one->link) == 0);
	one->link = NULL;
}

static void unload(struct loaded *one)
{
	check(dlclose(one->handle) == 0);
	*one = (struct loaded){ .path = one->path };
}

static int fire(const struct loaded *one, uint32_t provider)
{
	return one->functions->fire_raw(provider, RP_LEVEL_WARNING, "Fired", one->path, 4);
}

static uint64_t levels(const struct loaded *one, uint32_t provider)
{
	return one->functions->state->words[provider].levels;
}

static void load_all(void)
{
	for (unsigned int i = 0; i < COMPONENTS; i++)
		load(&loaded[i]);
}

static void unload_all(void)
{
	for (unsigned int i = 0; i < COMPONENTS; i++) {
		if (loaded[i].link)
			detach(&loaded[i]);
		unload(&loaded[i]);
	}
}

/* The first provider is the default one of two components and the private one of the third. */
static void attach_all(void)
{
	attach(&loaded[0], first_provider(), second_provider());
	attach(&loaded[1], first_provider(), NULL);
	attach(&loaded[2], second_provider(), first_provider());
}

static void events_of_all_components_are_counted_for_their_provider(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session, *other;

	load_all();
	attach_all();
	session = session_to("/dev/null", "Test-Several", RP_SESSION_BUFFER_MIN);
	other = session_to("/dev/null", "Test-Several-Other", RP_SESSION_BUFFER_MIN);
	for (unsigned int i = 0; i < COMPONENTS; i++) {
		for (unsigned int n = 0; n <= i; n++)
			check(fire(&loaded[i], RP_COMPONENT_DEFAULT) == 0);
		check(fire(&loaded[i], RP_COMPONENT_PRIVATE) == 0);
		loaded[i].functions->fire_known(1, "", 1, 7);
	}
	/* The default events are 1, 2 and 3; the second component has no private provider. */
	check(rp_session_stop(session, &stats) == 0);
	check(stats.delivered == 1 + 2 + 1 + 3 && stats.lost == 0);
	stats = (struct rp_session_stats)RP_SESSION_STATS_INIT;
	check(rp_session_stop(other, &stats) == 0);
	check(stats.delivered == 1 + 3 && stats.lost == 0);
	for (unsigned int i = 0; i < COMPONENTS; i++)
		check(loaded[i].known_calls == 1);
	unload_all();
}

static void unloading_one_component_leaves_the_others(void)
{
	for (unsigned int gone = 0; gone < COMPONENTS; gone++) {
		struct rp_session_stats stats = RP_SESSION_STATS_INIT;
		struct rp_listener *listener;
		struct rp_session *session;

		load_all();
		attach_all();
		session = session_to("/dev/null", "Test-Several", RP_SESSION_BUFFER_MIN);
		detach(&loaded[gone]);
		check(levels(&loaded[gone], 0) == 0 && levels(&loaded[gone], 1) == 0);
		check(fire(&loaded[gone], RP_COMPONENT_DEFAULT) == -EPIPE);
		unload(&loaded[gone]);
		listener = listen_to("Test-Several-Other");
		for (unsigned int i = 0; i < COMPONENTS; i++) {
			if (i == gone)
				continue;
			check(levels(&loaded[i], RP_COMPONENT_DEFAULT) == 63);
			check(levels(&loaded[i], RP_COMPONENT_PRIVATE) == (i == 1 ? 0 : 63));
			check(fire(&loaded[i], i == 2 ? RP_COMPONENT_PRIVATE :
				   RP_COMPONENT_DEFAULT) == 0);
		}
		check(rp_listener_stop(listener, NULL) == 0);
		check(rp_session_stop(session, &stats) == 0);
		check(stats.delivered == COMPONENTS - 1 && stats.lost == 0);
		for (unsigned int i = 0; i < COMPONENTS; i++)
			check(i == gone || levels(&loaded[i], RP_COMPONENT_DEFAULT) == 0);
		load(&loaded[gone]);
		unload_all();
	}
}

static void component_is_attached_once(void)
{
	struct rp_component_options options = RP_COMPONENT_OPTIONS_INIT;
	struct rp_component_link *again;

	load(&loaded[0]);
	attach(&loaded[0], first_provider(), NULL);
	options.provider = second_provider();
	check(rp_component_attach(entry_of(&loaded[0]), &options, &again) == -EEXIST);
	/* The refused call did not reach the component. */
	check(loaded[0].functions->state->host.data == &loaded[0]);
	detach(&loaded[0]);
	check(rp_component_attach(entry_of(&loaded[0]), &options, &again) == 0);
	check(rp_component_detach(again) == 0);
	unload(&loaded[0]);
}

static void provider_may_be_destroyed_after_its_last_component(void)
{
	for (unsigned int round = 0; round < 3; round++) {
		struct rp_provider *provider;

		load_all();
		check(rp_provider_create("Test-Several-Dynamic", NULL, NULL, &provider) == 0);
		attach(&loaded[0], provider, NULL);
		attach(&loaded[1], first_provider(), provider);
		detach(&loaded[0]);
		check(fire(&loaded[1], RP_COMPONENT_PRIVATE) == 0);
		detach(&loaded[1]);
		check(rp_provider_destroy(provider) == 0);
		unload_all();
	}
}

static atomic_bool is_over;

/* A component that is unloaded and loaded again and writes in between. */
static void *come_and_go(void *data)
{
	struct loaded *one = data;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		load(one);
		attach(one, first_provider(), second_provider());
		for (unsigned int i = 0; i < EVENTS; i++)
			(void)fire(one, RP_COMPONENT_DEFAULT);
		detach(one);
		unload(one);
	}
	return NULL;
}

static void *start_and_stop_sessions(void *data)
{
	(void)data;
	while (!atomic_load(&is_over)) {
		struct rp_listener *listener = listen_to("Test-Several");

		check(rp_listener_stop(listener, NULL) == 0);
	}
	return NULL;
}

static void components_come_and_go_simultaneously_without_a_loss(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session = session_to("/dev/null", "Test-Several", 1 << 20);
	pthread_t threads[COMPONENTS], other;

	check(pthread_create(&other, NULL, start_and_stop_sessions, NULL) == 0);
	for (unsigned int i = 0; i < COMPONENTS; i++)
		check(pthread_create(&threads[i], NULL, come_and_go, &loaded[i]) == 0);
	for (unsigned int i = 0; i < COMPONENTS; i++)
		check(pthread_join(threads[i], NULL) == 0);
	atomic_store(&is_over, true);
	check(pthread_join(other, NULL) == 0);
	check(rp_session_stop(session, &stats) == 0);
	check(stats.delivered == COMPONENTS * ROUNDS * EVENTS && stats.lost == 0);
}

int main(int argc, char **argv)
{
	check(argc == 1 + COMPONENTS);
	for (unsigned int i = 0; i < COMPONENTS; i++)
		loaded[i].path = argv[1 + i];
	events_of_all_components_are_counted_for_their_provider();
	unloading_one_component_leaves_the_others();
	component_is_attached_once();
	provider_may_be_destroyed_after_its_last_component();
	components_come_and_go_simultaneously_without_a_loss();
	return 0;
}
