/* SPDX-License-Identifier: MIT */
#include "exact.h"

#include <stdlib.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

#include "component_bench.h"

RP_PROVIDER(nobody, "Bench-Nobody");
RP_PROVIDER(bench, "Bench-Exact");
RP_PROVIDER(flight, "Bench-Flight");
RP_PROVIDER(both, "Bench-Both");
RP_PROVIDER(many, "Bench-Many");
RP_PROVIDER(coarse, "Bench-Coarse");
RP_PROVIDER(causal, "Bench-Causal");
RP_PROVIDER(waiting, "Bench-Blocking");
RP_PROVIDER(full, "Bench-Full");
RP_PROVIDER(stalled, "Bench-Stalled");
RP_PROVIDER(stacked, "Bench-Stacked");
RP_PROVIDER(pulled, "Bench-Pulled");
RP_PROVIDER(pushed, "Bench-Pushed");

#define BYTES32(provider) \
	RP_EVENT(provider, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), \
		 RP_U64(d)); \
	static void provider##_run(void) \
	{ \
		provider##_bytes32(1, 2, 3, 4); \
	}

BYTES32(nobody)
BYTES32(bench)
BYTES32(flight)
BYTES32(both)
BYTES32(many)
BYTES32(coarse)
BYTES32(causal)
BYTES32(waiting)
BYTES32(full)
BYTES32(stalled)
BYTES32(stacked)
BYTES32(pulled)
BYTES32(pushed)

RP_STRUCT(point, RP_F64(x), RP_F64(y), RP_F64(z));
RP_EVENT(bench, empty, 2, RP_LEVEL_INFORMATIONAL, 0);
RP_EVENT(bench, bytes8, 3, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a));
RP_EVENT(bench, bytes64, 4, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d),
	 RP_U64(e), RP_U64(f), RP_U64(g), RP_U64(h));
RP_EVENT(bench, text, 5, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_STRING(s));
RP_EVENT(bench, texts, 6, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(s), RP_U64(a), RP_STRING(t));
RP_EVENT(bench, wide, 7, RP_LEVEL_INFORMATIONAL, 0, RP_STRING16(s));
RP_EVENT(bench, blob, 8, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(b));
RP_EVENT(bench, array, 9, RP_LEVEL_INFORMATIONAL, 0, RP_ARRAY(U32, n));
RP_EVENT(bench, structs, 10, RP_LEVEL_INFORMATIONAL, 0, RP_STRUCT_FIELD(point, p));
RP_EVENT(bench, secret, 11, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_SECRET(RP_STRING(s)));
RP_EVENT(bench, traced, 12, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(nobody, exported, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c),
	 RP_U64(d));
RP_COUNTER(bench, added, NULL, NULL);
RP_GAUGE(bench, level, NULL, NULL);
RP_HISTOGRAM(bench, spread, NULL, NULL);

#undef RP_STATIC_KEYS
#define RP_STATIC_KEYS 1
RP_EVENT(bench, keyed, 13, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static char space[8192];
static const char *volatile customer = "a customer's name";
static const struct rp_counter_tag tag = { "key", "value" };
static struct rp_counter *series;
static struct rp_event *made, *made_secret;
static struct rp_activity activity;

static void nothing(void)
{
}

static void enabled(void)
{
	if (nobody_bytes32_enabled())
		abort();
}

static void empty(void)
{
	bench_empty();
}

static void bytes8(void)
{
	bench_bytes8(1);
}

static void bytes64(void)
{
	bench_bytes64(1, 2, 3, 4, 5, 6, 7, 8);
}

static void text(void)
{
	bench_text(1, customer);
}

static void texts(void)
{
	bench_texts(customer, 1, customer);
}

static void wide(void)
{
	static const rp_char16 hello[] = { 'h', 'e', 'l', 'l', 'o', 0 };

	bench_wide(hello);
}

static void blob512(void)
{
	bench_blob(space, 512);
}

/* Too large for the critical section to copy. */
static void blob4608(void)
{
	bench_blob(space, 4608);
}

static void too_big(void)
{
	bench_blob(space, RP_PAYLOAD_MAX + 1);
}

static void array(void)
{
	static const uint32_t numbers[16];

	bench_array(numbers, 16);
}

static void structs(void)
{
	static const struct point point;

	bench_structs(&point);
}

static void secret(void)
{
	bench_secret(1, customer);
}

static void keyed(void)
{
	bench_keyed(1, 2, 3, 4);
}

static void one_part(void)
{
	const struct rp_part part = { space, 32 };

	rp_event_write(made, &part, 1);
}

static void four_parts(void)
{
	const struct rp_part parts[] = { { space, 8 }, { space, 8 }, { space, 8 }, { space, 8 } };

	rp_event_write(made, parts, 4);
}

static void part_with_secret(void)
{
	const struct rp_part part = { space, 32 };

	rp_event_write(made_secret, &part, 1);
}

static void exported(void)
{
	nobody_exported(1, 2, 3, 4);
}

static void traced(void)
{
	bench_traced(1, 2, 3, 4);
}

/* The last of seven exporters, which is not registered: measures the cost up to its call. */
static void begin_exported(void)
{
	__atomic_fetch_or(&nobody_exported_event_.enable, 1ull << 46, __ATOMIC_RELAXED);
}

static void end_exported(void)
{
	__atomic_fetch_and(&nobody_exported_event_.enable, ~(1ull << 46), __ATOMIC_RELAXED);
}

/* Sets the semaphore as the kernel does for a tracer. */
static void begin_traced(void)
{
	__atomic_fetch_add(&bench_traced_event_.enable, 1ull << 48, __ATOMIC_RELAXED);
}

static void end_traced(void)
{
	__atomic_fetch_sub(&bench_traced_event_.enable, 1ull << 48, __ATOMIC_RELAXED);
}

static void begin_full(void)
{
	while (full_bytes32(1, 2, 3, 4) == 0)
		;
}

static void begin_stalled(void)
{
	rp_thread_set_blocking(0);
	while (stalled_bytes32(1, 2, 3, 4) == 0)
		;
}

static void end_stalled(void)
{
	rp_thread_set_blocking(1);
}

#if defined(__x86_64__)
void from_nowhere(void (*run)(void));	/* from_nowhere_x86_64.S */
#else
static void from_nowhere(void (*run)(void))
{
	run();
}
#endif

static void with_stack(void)
{
	from_nowhere(stacked_run);
}

static void count(void)
{
	bench_added_add(1);
}

static void set(void)
{
	bench_level_set(1.5);
}

static void record(void)
{
	bench_spread_record(77);
}

static void count_series(void)
{
	rp_counter_add(series, 1);
}

static void count_tagged(void)
{
	rp_counter_add_tagged(bench_added_counter(), 1, &tag, 1);
}

static void begin_activity(void)
{
	memset(&activity, 0, sizeof(activity));
	rp_activity_generate(&activity.id);
	rp_activity_set(&activity);
}

static void begin_related(void)
{
	begin_activity();
	rp_activity_generate(&activity.related);
	rp_activity_set(&activity);
}

static void begin_secret(void)
{
	static const struct rp_field fields[] = {
		{ .name = "a", .type = RP_TYPE_U64 },
		{ .name = "b", .type = RP_TYPE_U64, .flags = RP_FIELD_SECRET },
		{ .name = "c", .type = RP_TYPE_U64 },
		{ .name = "d", .type = RP_TYPE_U64 },
	};
	const struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 101, .name = "secret", .fields = fields,
		.field_count = 4, .level = RP_LEVEL_INFORMATIONAL,
	};

	if (rp_event_create(bench_provider(), &decl, &made_secret) != 0)
		abort();
}

static void end_secret(void)
{
	rp_event_destroy(made_secret);
}

/* The ids of a request, which profilers see. */
static struct rp_activity request;

static void begin_published(void)
{
	uint8_t flags;

	if (rp_process_context_publish(NULL) != 0)
		abort();
	rp_traceparent_generate(&request, &flags);
}

static void attach_and_detach(void)
{
	static const struct rp_activity none;

	rp_activity_set(&request);
	rp_activity_set(&none);
}

#define WAY(text, function, ...) { .name = text, .run = function, __VA_ARGS__ }

static struct rp_component_state component;
static struct bench_events component_events;

static int component_start(const struct rp_component_host *host, struct rp_component *ret_component)
{
	return rp_component_init(&component, host, &component_events, sizeof(component_events),
				 ret_component);
}

static void known(void)
{
	RP_COMPONENT_FIRE(&component, &component_events, bytes32, RP_COMPONENT_DEFAULT,
			  RP_LEVEL_INFORMATIONAL, 0, 1, 2, 3, 4);
}

/* No session has the provider, so this is the cost of the test. */
static void known_off(void)
{
	RP_COMPONENT_FIRE(&component, &component_events, bytes32, RP_COMPONENT_PRIVATE,
			  RP_LEVEL_INFORMATIONAL, 0, 1, 2, 3, 4);
}

static void host_bytes32(void *data, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	(void)data;
	bench_bytes32(a, b, c, d);
}

static void attach_component(void)
{
	static const struct bench_events host = { sizeof(host), 0, host_bytes32 };
	struct rp_component_options options = RP_COMPONENT_OPTIONS_INIT;
	struct rp_component_link *link;

	options.provider = bench_provider();
	options.private_provider = nobody_provider();
	options.events = &host;
	if (rp_component_attach(component_start, &options, &link) != 0)
		abort();
}

const struct exact_way exact_ways[] = {
	WAY("nothing", nothing),
	WAY("first event of a thread", bench_run, .first = true, .writes = true),
	WAY("disabled event", nobody_run, .many = true),
	WAY("whether an event is enabled", enabled),
	WAY("event 32 B", bench_run, .writes = true, .many = true),
	WAY("event 0 B", empty, .writes = true),
	WAY("event 8 B", bytes8, .writes = true),
	WAY("event of 8 numbers", bytes64, .writes = true),
	WAY("event with a string", text, .writes = true),
	WAY("event with two strings", texts, .writes = true),
	WAY("event with a UTF-16 string", wide, .writes = true),
	WAY("event with an array", array, .writes = true),
	WAY("event with a struct", structs, .writes = true),
	WAY("event with a secret", secret, .writes = true),
	WAY("event 512 B", blob512, .writes = true),
	WAY("event 4,608 B", blob4608, .writes = true),
	WAY("event with an enabled static key", keyed, .writes = true),
	WAY("dynamic event, one part", one_part, .writes = true),
	WAY("dynamic event, four parts", four_parts, .writes = true),
	WAY("event 32 B, overwriting", flight_run),
	WAY("event 32 B, coarse time", coarse_run, .many = true),
	WAY("event 32 B, causal", causal_run),
	WAY("event 32 B, session that waits for space", waiting_run),
	WAY("event 32 B, two sessions", both_run),
	WAY("event 32 B, eight sessions", many_run),
	WAY("event 32 B with a stack", with_stack),
	WAY("event 32 B, pull listener", pulled_run),
	WAY("event 32 B, push listener", pushed_run),
	WAY("event 32 B, an exporter alone", exported, .begin = begin_exported,
	    .end = end_exported),
	WAY("event 32 B, a tracer too", traced, .begin = begin_traced, .end = end_traced,
	    .writes = true),
	WAY("event lost, no space", full_run, .begin = begin_full),
	WAY("event lost, wait timed out", stalled_run, .begin = begin_stalled,
	    .end = end_stalled),
	WAY("event lost, too big", too_big, .writes = true),
	WAY("counter", count, .many = true),
	WAY("gauge", set),
	WAY("histogram", record),
	WAY("series of a counter", count_series),
	WAY("counter with a tag", count_tagged),
	WAY("event 32 B through a component's table", known, .writes = true, .many = true),
	WAY("disabled event of a component", known_off, .many = true),
	/* Last, because it would slow later ways down. */
	WAY("event 32 B with activity id", bench_run, .begin = begin_activity, .writes = true),
	WAY("event 32 B with two ids", bench_run, .begin = begin_related, .writes = true),
	WAY("dynamic event with a secret", part_with_secret, .begin = begin_secret,
	    .end = end_secret, .writes = true, .once = true),
	WAY("attach and detach published ids", attach_and_detach, .begin = begin_published),
};

const unsigned int exact_way_count = sizeof(exact_ways) / sizeof(exact_ways[0]);

void exact_ways_init(void)
{
	static const struct rp_field fields[] = {
		{ .name = "a", .type = RP_TYPE_U64 }, { .name = "b", .type = RP_TYPE_U64 },
		{ .name = "c", .type = RP_TYPE_U64 }, { .name = "d", .type = RP_TYPE_U64 },
	};
	const struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 100, .name = "made", .fields = fields,
		.field_count = 4, .level = RP_LEVEL_INFORMATIONAL,
	};

	if (rp_event_create(bench_provider(), &decl, &made) != 0 ||
	    rp_counter_series(bench_added_counter(), &tag, 1, &series) != 0)
		abort();
	attach_component();
}

void exact_write_stack(void)
{
	with_stack();
}

void exact_write_kind(const char *kind, unsigned int count)
{
	bool alternates = strcmp(kind, "mixed") == 0;

	if (strcmp(kind, "activity") == 0)
		begin_activity();
	for (unsigned int i = 0; i < count; i++) {
		if (strcmp(kind, "text") == 0)
			text();
		else if (alternates && i % 2)
			bytes8();
		else
			bench_run();
	}
}
