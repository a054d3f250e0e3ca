/* SPDX-License-Identifier: MIT */
/* Components and hosts that are incomplete, wrong, or late. The components are in the program. */
#include "../process/check.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>

#include "contract.h"

RP_PROVIDER(edge, "Test-Edge");
RP_PROVIDER(edge_private, "Test-Edge-Private");
RP_EVENT(edge, fired, 1, RP_LEVEL_ERROR, KEYWORD_MOVES, RP_U32(n));
RP_EVENT(edge_private, fired, 1, RP_LEVEL_ERROR, 0, RP_U32(n));

#define ROUNDS 200u
#define THREADS 3

static struct rp_component_state state;
static struct test_events events;
static struct rp_component last;	/* what the last component gave to its host */
static uint32_t last_size = sizeof(struct rp_component);
static unsigned int known_calls;

static int enter(const struct rp_component_host *host, struct rp_component *component)
{
	int ret = rp_component_init(&state, host, &events, sizeof(events), component);

	if (ret == 0) {
		component->size = last_size;
		last = *component;
	}
	return ret;
}

static int refuse(const struct rp_component_host *host, struct rp_component *component)
{
	(void)host;
	(void)component;
	return -ENODEV;
}

/* A component that cannot be controlled or stopped. */
static int enter_without_functions(const struct rp_component_host *host,
				   struct rp_component *component)
{
	check(enter(host, component) == 0);
	component->control = NULL;
	component->stop = NULL;
	return 0;
}

static struct rp_component_options options_with(const void *table)
{
	return (struct rp_component_options){
		.size = sizeof(struct rp_component_options), .provider = edge_provider(),
		.private_provider = edge_private_provider(), .events = table,
	};
}

static struct rp_component_link *attach(rp_component_entry entry, const void *table)
{
	struct rp_component_options options = options_with(table);
	struct rp_component_link *link;

	check(rp_component_attach(entry, &options, &link) == 0);
	return link;
}

static void collected(void *data, uint32_t number, const char *why)
{
	(void)data;
	(void)number;
	(void)why;
	known_calls++;
}

static void fire_all(void)
{
	RP_COMPONENT_FIRE(&state, &events, collected, RP_COMPONENT_DEFAULT, RP_LEVEL_ERROR,
			  KEYWORD_MOVES, 1, "");
	RP_COMPONENT_FIRE(&state, &events, moved, RP_COMPONENT_DEFAULT, RP_LEVEL_ERROR,
			  KEYWORD_MOVES, 1);
	RP_COMPONENT_FIRE(&state, &events, pinned, RP_COMPONENT_DEFAULT, RP_LEVEL_ERROR,
			  KEYWORD_MOVES, 1);
}

/* Tables that end at any byte, or have null entries. Only a complete function is called. */
static void table_of_any_size_is_used_as_far_as_it_goes(void)
{
	struct rp_listener *listener = listen_to("Test-Edge");
	const size_t first_end = offsetof(struct test_events, collected) + sizeof(void *);
	struct {
		struct test_events known;
		uint64_t newer[4];
	} table;

	for (uint32_t size = 0; size <= sizeof(table); size++) {
		struct rp_component_link *link;
		unsigned int calls_before = known_calls;

		memset(&table, 0, sizeof(table));
		table.known.size = size;
		table.known.collected = collected;
		table.newer[0] = UINT64_MAX;	/* no function of this component */
		link = attach(enter, &table);
		fire_all();
		check(known_calls - calls_before == (size >= first_end));
		check(events.size == sizeof(events) && !events.moved && !events.pinned);
		check(rp_component_detach(link) == 0);
	}
	check(rp_component_detach(attach(enter, NULL)) == 0);
	check(!events.collected);
	check(rp_listener_stop(listener, NULL) == 0);
}

static void nothing(void)
{
}

struct signed_table {
	struct rp_component_table table;
	void (*functions[3])(void);
};

/* Tables with signatures that end at any byte, state too many functions, or have null entries. */
static void signed_table_of_any_size_is_used_as_far_as_it_goes(void)
{
	static const uint64_t own_signatures[] = { 1, 2, 3 }, signatures[] = { 3, 2, 9, 1 };
	const size_t begin = sizeof(struct rp_component_table), each = sizeof(void *);
	struct {
		struct rp_component_table table;
		void (*functions[4])(void);
	} given = { { sizeof(given), 4, signatures }, { fire_all, NULL, nothing, nothing } };
	struct signed_table own;

	for (uint32_t size = 0; size <= sizeof(given); size++) {
		given.table.size = size;
		rp_component_match(&own, sizeof(own), own_signatures, &given);
		check(own.table.size == sizeof(own) && own.table.count == 3);
		check(own.functions[2] == (size >= begin + each ? fire_all : NULL));
		check(!own.functions[1]);
		check(own.functions[0] == (size >= begin + 4 * each ? nothing : NULL));
	}
	given.table = (struct rp_component_table){ sizeof(given), UINT32_MAX, signatures };
	rp_component_match(&own, sizeof(own), own_signatures, &given);
	check(own.functions[0] == nothing);
	given.table.count = 3;
	rp_component_match(&own, sizeof(own), own_signatures, &given);
	check(!own.functions[0] && own.functions[2] == fire_all);
	given.table.signatures = NULL;
	rp_component_match(&own, sizeof(own), own_signatures, &given);
	check(!own.functions[2]);
	rp_component_match(&own, sizeof(own), own_signatures, NULL);
	check(!own.functions[2] && own.table.signatures == own_signatures);
}

static void incomplete_component_is_refused_or_left_alone(void)
{
	struct rp_component_options options = options_with(NULL);
	struct rp_listener *listener = listen_to("Test-Edge");
	struct rp_component_link *link;

	check(rp_component_attach(NULL, &options, &link) == -EINVAL);
	check(rp_component_attach(enter, NULL, &link) == -EINVAL);
	check(rp_component_attach(enter, &options, NULL) == -EINVAL);
	check(rp_component_attach(refuse, &options, &link) == -ENODEV);
	for (last_size = 0; last_size < RP_COMPONENT_SIZE_V1; last_size++)
		check(rp_component_attach(enter, &options, &link) == -EINVAL);
	check(rp_component_detach(attach(enter, NULL)) == 0);
	memset(&state, 0, sizeof(state));
	link = attach(enter_without_functions, NULL);
	check(state.words[0].levels == 0);
	check(rp_component_detach(link) == 0);
	options.private_provider = options.provider;
	check(rp_component_attach(enter, &options, &link) == -EINVAL);
	options.provider = NULL;
	check(rp_component_attach(enter, &options, &link) == -EINVAL);
	check(rp_component_detach(NULL) == 0);
	check(rp_listener_stop(listener, NULL) == 0);
}

static void incomplete_host_is_refused(void)
{
	struct rp_component component = { .size = sizeof(component) };
	struct rp_component_host host = { .size = RP_COMPONENT_HOST_SIZE_V1 - 1 };

	check(rp_component_init(&state, &host, NULL, 0, &component) == -EINVAL);
	host.size = sizeof(host);
	component.size = RP_COMPONENT_SIZE_V1 - 1;
	check(rp_component_init(&state, &host, NULL, 0, &component) == -EINVAL);
	component.size = sizeof(component);
	check(rp_component_init(&state, &host, NULL, 0, &component) == 0);
	/* A host without dynamic events. */
	rp_component_control(&state, 0, UINT64_MAX, 63);
	RP_COMPONENT_FIRE_DYNAMIC(&state, RP_COMPONENT_DEFAULT, RP_LEVEL_ERROR, 1, "Ignored",
				  RP_COMPONENT_FIELD("n", 1));
	/* A provider of a later version. */
	rp_component_control(&state, RP_COMPONENT_PROVIDERS, 1, 1);
	rp_component_control(&state, 0, 0, 0);
	check(state.words[1].levels == 0);
}

static void component_without_a_private_provider_writes_no_private_event(void)
{
	struct rp_component_options options = options_with(NULL);
	struct rp_component_link *second;

	options.provider = edge_private_provider();
	options.private_provider = NULL;
	check(rp_component_attach(enter, &options, &second) == 0);
	check(state.host.fire_dynamic(state.host.context, RP_COMPONENT_PRIVATE, 1, "n", "", 0)
	      == 0);
	check(rp_component_detach(second) == 0);
}

static unsigned int callbacks;
static struct rp_component_link *detached_by_callback;

static void on_state(struct rp_provider *provider, const struct rp_provider_state *given,
		     void *data)
{
	struct rp_component_options options = options_with(NULL);
	struct rp_component_link *link;

	(void)provider;
	(void)given;
	(void)data;
	callbacks++;
	if (!detached_by_callback)
		return;
	check(state.words[0].levels == (given->enabled ? 63 : 0));
	check(rp_component_detach(detached_by_callback) == -EDEADLK);
	check(rp_component_attach(enter, &options, &link) == -EEXIST);
}

static void callback_of_the_provider_remains(void)
{
	struct rp_listener *listener = listen_to("Test-Edge");
	unsigned int callbacks_before;

	check(rp_provider_set_callback(edge_provider(), on_state, NULL) == 0);
	callbacks_before = callbacks;
	detached_by_callback = attach(enter, NULL);
	check(callbacks == callbacks_before);
	check(rp_listener_stop(listener, NULL) == 0);
	check(callbacks == callbacks_before + 1);
	listener = listen_to("Test-Edge");
	check(callbacks == callbacks_before + 2 && state.words[0].levels == 63);
	check(rp_component_detach(detached_by_callback) == 0);
	detached_by_callback = NULL;
	check(state.words[0].levels == 0);
	check(rp_listener_stop(listener, NULL) == 0);
	check(callbacks == callbacks_before + 3 && state.words[0].levels == 0);
	check(rp_provider_set_callback(edge_provider(), NULL, NULL) == 0);
}

static int fire(uint32_t provider, uint32_t level, const char *name, const void *payload,
		uint32_t payload_bytes)
{
	return state.host.fire_dynamic(state.host.context, provider, level, name, payload,
				       payload_bytes);
}

static atomic_bool worker_ends;
static unsigned int stopped_workers;
static pthread_t worker;

static void *fire_until_stopped(void *data)
{
	while (!atomic_load(&worker_ends))
		(void)fire(0, RP_LEVEL_ERROR, "Working", "", 0);
	return data;
}

static void stop_worker(void *data)
{
	check(data == &state);
	atomic_store(&worker_ends, true);
	check(pthread_join(worker, NULL) == 0);
	stopped_workers++;
}

static int enter_with_worker(const struct rp_component_host *host, struct rp_component *component)
{
	check(enter(host, component) == 0);
	component->stop = stop_worker;
	atomic_store(&worker_ends, false);
	check(pthread_create(&worker, NULL, fire_until_stopped, NULL) == 0);
	return 0;
}

static void attach_in_callback(struct rp_provider *provider, const struct rp_provider_state *given,
			       void *data)
{
	struct rp_component_options options = options_with(NULL);
	struct rp_component_link *link;

	(void)provider;
	(void)given;
	(void)data;
	check(rp_component_attach(enter_with_worker, &options, &link) == -EDEADLK);
}

/* After the refusal, the host may unload the component, so its threads must have ended. */
static void component_with_threads_is_stopped_when_it_is_refused(void)
{
	struct rp_component_options options = options_with(NULL);
	struct rp_component_link *link;

	for (last_size = 0; last_size < RP_COMPONENT_SIZE_V1; last_size++) {
		check(rp_component_attach(enter_with_worker, &options, &link) == -EINVAL);
		check(stopped_workers == last_size + 1);
	}
	last_size = sizeof(struct rp_component);
	stopped_workers = 0;
	check(rp_provider_set_callback(edge_provider(), attach_in_callback, NULL) == 0);
	check(rp_listener_stop(listen_to("Test-Edge"), NULL) == 0);
	check(rp_provider_set_callback(edge_provider(), NULL, NULL) == 0);
	check(stopped_workers == 2);
}

static struct rp_component_link *detached_by_itself;
static unsigned int refused_detaches, stops;

static void detach_in_control(void *data, uint32_t provider, uint64_t keywords, uint32_t levels)
{
	(void)data;
	(void)provider;
	(void)keywords;
	(void)levels;
	if (!detached_by_itself)
		return;
	check(rp_component_detach(detached_by_itself) == -EDEADLK);
	refused_detaches++;
}

static void detach_in_stop(void *data)
{
	detach_in_control(data, 0, 0, 0);
	stops++;
}

static int enter_to_detach(const struct rp_component_host *host, struct rp_component *component)
{
	check(enter(host, component) == 0);
	component->control = detach_in_control;
	component->stop = detach_in_stop;
	return 0;
}

static void component_does_not_detach_itself(void)
{
	struct rp_listener *listener = listen_to("Test-Edge");

	for (unsigned int round = 1; round <= 2; round++) {
		detached_by_itself = attach(enter_to_detach, NULL);
		check(rp_component_detach(detached_by_itself) == 0);
		detached_by_itself = NULL;
		/* The off state of both providers, and the end. */
		check(refused_detaches == 3 * round && stops == round);
	}
	check(rp_listener_stop(listener, NULL) == 0);
}

static void wrong_arguments_of_a_dynamic_event_are_refused(void)
{
	static char name[2 * RP_NAME_MAX], payload[RP_PAYLOAD_MAX + 1];
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_component_link *link = attach(enter, NULL);
	struct rp_listener *listener = listen_to("Test-Edge");

	check(fire(RP_COMPONENT_PROVIDERS, 1, "n", "", 0) == -EINVAL);
	check(fire(0, RP_LEVEL_VERBOSE + 1, "n", "", 0) == -EINVAL);
	check(fire(0, 1, NULL, "", 0) == -EINVAL && fire(0, 1, "n", NULL, 1) == -EINVAL);
	check(fire(0, 1, "n", payload, sizeof(payload)) == -EMSGSIZE);
	check(fire(0, 1, "n", payload, RP_PAYLOAD_MAX - 3) == -EMSGSIZE);
	check(fire(0, 1, "n", payload, UINT32_MAX) == -EMSGSIZE);
	memset(name, 'n', sizeof(name) - 1);
	check(fire(0, 1, name, NULL, 0) == 0);
	do {	/* The losses of the two events that were too big may come first. */
		check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
	} while (strcmp(event.name, "EventsLost") == 0);
	check(strlen(event.payload) == RP_NAME_MAX && event.payload_bytes == RP_NAME_MAX + 3);
	check(rp_listener_stop(listener, NULL) == 0);
	check(rp_component_detach(link) == 0);
}

/* A tracer of the kernel raises the event's semaphore, the upper 16 bits of the enable word. */
static void component_follows_tracers_of_the_kernel(void)
{
	uint16_t *semaphore = (uint16_t *)&edge_fired_event_.enable + 3;
	struct rp_component_link *link = attach(enter, NULL);

	check(rp_tracers_watch(1) == 0);
	check(edge_fired(1) == 0 &&
	      __atomic_load_n(&state.words[0].levels, __ATOMIC_RELAXED) == 0);
	__atomic_fetch_add(semaphore, 1, __ATOMIC_SEQ_CST);
	wait_until(__atomic_load_n(&state.words[0].levels, __ATOMIC_RELAXED) == 7);
	check(__atomic_load_n(&state.words[0].keywords, __ATOMIC_RELAXED) == KEYWORD_MOVES);
	check(rp_component_enabled(&state, 0, RP_LEVEL_ERROR, KEYWORD_MOVES));
	check(!rp_component_enabled(&state, 0, RP_LEVEL_WARNING, KEYWORD_MOVES));
	__atomic_fetch_sub(semaphore, 1, __ATOMIC_SEQ_CST);
	wait_until(__atomic_load_n(&state.words[0].levels, __ATOMIC_RELAXED) == 0);
	check(rp_component_detach(link) == 0);
}

static sigjmp_buf before_fire;

static void leave(int number)
{
	(void)number;
	siglongjmp(before_fire, 1);
}

/* The name of the event is in memory that cannot be read, and the handler of SIGSEGV leaves. */
static void thread_that_left_an_event_does_not_stop_detach(void)
{
	struct sigaction action = { .sa_handler = leave }, previous;
	struct rp_listener *listener = listen_to("Test-Edge");
	struct rp_component_options options = options_with(NULL);
	struct rp_component_link *link;
	int ret = rp_component_attach(enter, &options, &link);

	check(ret == 0 || ret == -EEXIST);
	if (ret == -EEXIST) {
		printf("the storm before this test ended early\n");
		check(rp_listener_stop(listener, NULL) == 0);
		return;
	}
	check(sigaction(SIGSEGV, &action, &previous) == 0);
	if (sigsetjmp(before_fire, 1) == 0) {
		(void)fire(0, RP_LEVEL_ERROR, (const char *)(uintptr_t)8, "", 0);
		check(!"fire_dynamic() returned");
	}
	check(sigaction(SIGSEGV, &previous, NULL) == 0);
	check(rp_component_detach(link) == 0);
	check(rp_component_attach(enter, &options, &link) == -EEXIST);
	check(rp_listener_stop(listener, NULL) == 0);
}

static atomic_bool is_over;
static atomic_uint written;
static _Atomic(void *) context;

static void *fire_always(void *data)
{
	const struct rp_component_host *host = data;

	while (!atomic_load(&is_over)) {
		int ret = host->fire_dynamic(atomic_load(&context), 0, RP_LEVEL_ERROR, "Storm",
					     "x", 1);

		check(ret == 0 || ret == -EPIPE || ret == -ENOBUFS);
		written += ret != -EPIPE;	/* no program reads the listener */
	}
	return NULL;
}

/*
 * Threads of a component that has no stop() go on while the host detaches and attaches it. On a
 * busy machine, the scheduler may hold one of them inside fire_dynamic() for a second. The provider
 * then keeps its events, and the rounds end.
 */
static void component_that_never_stops_does_no_damage(void)
{
	struct rp_component_options options = options_with(NULL);
	struct rp_component_link *link = attach(enter, NULL);
	static struct rp_component_host host;
	pthread_t threads[THREADS];
	struct rp_listener *listener = listen_to("Test-Edge");

	host = state.host;
	atomic_store(&context, host.context);
	for (int i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, fire_always, &host) == 0);
	for (unsigned int round = 0; round < ROUNDS && link; round++) {
		unsigned int before = written;
		int ret;

		wait_until(written != before);
		check(rp_component_detach(link) == 0);
		link = NULL;
		ret = rp_component_attach(enter, &options, &link);
		check(ret == 0 || (ret == -EEXIST && round > 0));
		if (link)
			atomic_store(&context, state.host.context);
	}
	atomic_store(&is_over, true);
	for (int i = 0; i < THREADS; i++)
		check(pthread_join(threads[i], NULL) == 0);
	check(rp_component_detach(link) == 0);
	check(rp_listener_stop(listener, NULL) == 0);
}

int main(void)
{
	table_of_any_size_is_used_as_far_as_it_goes();
	signed_table_of_any_size_is_used_as_far_as_it_goes();
	incomplete_component_is_refused_or_left_alone();
	incomplete_host_is_refused();
	component_without_a_private_provider_writes_no_private_event();
	callback_of_the_provider_remains();
	wrong_arguments_of_a_dynamic_event_are_refused();
	component_with_threads_is_stopped_when_it_is_refused();
	component_does_not_detach_itself();
	component_follows_tracers_of_the_kernel();
	component_that_never_stops_does_no_damage();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	thread_that_left_an_event_does_not_stop_detach();
#endif
	return 0;
}
