/* SPDX-License-Identifier: MIT */
/* Exporters: the events announced and passed to them, and the callbacks that report them. */
#include "core_support.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "core/exporter_set.h"
#include "core/own.h"

RP_PROVIDER(declared, "Test-Exporter-Declared");
RP_EVENT(declared, pair, 7, RP_LEVEL_WARNING, 0x10, RP_U32(number), RP_STRING(text));

#define EXPORTS_MAX 64u

/* Settings of the exporter under test, and the calls it received, which are serialized. */
static struct {
	const struct rp_export *exports[EXPORTS_MAX];
	unsigned int count, added, removed;
	bool enable;			/* each event as soon as it is announced */
	char prefix[64];		/* prefix of the providers to count */
	pthread_t writer;
	const struct rp_export *written;
	uint8_t payload[64];
	uint64_t payload_bytes;
	unsigned int writes;
} seen;

static bool is_ours(const struct rp_export *export)
{
	return strncmp(export->def->provider, seen.prefix, strlen(seen.prefix)) == 0;
}

static void on_write(struct rp_export *export, const struct rp_part *parts,
		     unsigned int part_count, uint64_t payload_bytes)
{
	size_t at = 0;

	if (payload_bytes > sizeof(seen.payload))
		rp_add_relaxed(&export->lost, 1);
	for (unsigned int i = 0; i < part_count && payload_bytes <= sizeof(seen.payload); i++) {
		memcpy(seen.payload + at, parts[i].base, parts[i].size_bytes);
		at += parts[i].size_bytes;
	}
	seen.written = export;
	seen.payload_bytes = payload_bytes;
	seen.writer = pthread_self();
	seen.writes++;
}

static void on_add(struct rp_export *const *exports, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		exports[i]->data = (void *)(uintptr_t)(exports[i]->def->id + 1);
		if (!is_ours(exports[i]))
			continue;
		cr_assert_lt(seen.count, EXPORTS_MAX);
		cr_assert_eq(exports[i]->event->enable & exports[i]->bit, 0u);
		seen.exports[seen.count++] = exports[i];
		seen.added++;
		if (seen.enable)
			rp_export_switch(exports[i], true);
	}
}

static void on_remove(struct rp_export *const *exports, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		cr_assert_eq(exports[i]->event->enable & exports[i]->bit, 0u, "still on");
		cr_assert_eq((uintptr_t)exports[i]->data, exports[i]->def->id + 1);
		for (unsigned int k = 0; k < seen.count; k++) {
			if (seen.exports[k] != exports[i])
				continue;
			seen.exports[k] = seen.exports[--seen.count];
			seen.removed++;
			break;
		}
	}
}

static const struct rp_exporter_ops ops = {
	.size = sizeof(ops), .name = "test", .write = on_write, .add = on_add, .remove = on_remove,
};

static struct rp_exporter *start(const char *prefix, bool enable)
{
	struct rp_exporter *exporter = NULL;

	snprintf(seen.prefix, sizeof(seen.prefix), "%s", prefix);
	seen.enable = enable;
	cr_assert_eq(rp_exporter_register(&ops, &exporter), 0);
	return exporter;
}

static struct rp_provider *make_provider(const char *name)
{
	struct rp_provider *provider;

	cr_assert_eq(rp_provider_create(name, NULL, NULL, &provider), 0);
	return provider;
}

static struct rp_event *make_event(struct rp_provider *provider, uint32_t id, uint8_t level,
				   uint64_t keywords)
{
	struct rp_event_decl decl = { .size = sizeof(decl), .id = id, .name = "event",
				      .level = level, .keywords = keywords };
	struct rp_event *event;

	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	return event;
}

static const struct rp_export *export_of(const struct rp_event *event)
{
	for (unsigned int i = 0; i < seen.count; i++) {
		if (seen.exports[i]->event == event)
			return seen.exports[i];
	}
	cr_assert_fail("the exporter does not know the event");
	return NULL;
}

static void turn(const struct rp_event *event, bool on)
{
	rp_exporters_lock();
	rp_export_switch(export_of(event), on);
	rp_exporters_unlock();
}

Test(core_exporter, is_reported_of_events_that_are_there_and_that_come_and_go)
{
	struct rp_provider *provider = make_provider("Test-Coming");
	struct rp_event *early = make_event(provider, 1, 0, 0), *late;

	start("Test-Coming", false);
	cr_assert_eq(seen.added, 1u);
	cr_assert_eq(export_of(early)->def->id, 1u);
	late = make_event(provider, 2, 0, 0);
	cr_assert_eq(seen.added, 2u);
	rp_event_destroy(early);
	cr_assert_eq(seen.removed, 1u);
	turn(late, true);
	cr_assert(rp_event_enabled(late));
	cr_assert_eq(rp_provider_destroy(provider), 0);
	cr_assert_eq(seen.removed, 2u);
	cr_assert_eq(seen.count, 0u);
}

Test(core_exporter, event_enabled_when_reported_is_on_immediately)
{
	struct rp_provider *provider = make_provider("Test-At-Once");
	struct rp_event *event;

	start("Test-At-Once", true);
	event = make_event(provider, 1, 0, 0);
	cr_assert(rp_event_enabled(event));
	cr_assert_eq(rp_event_write(event, NULL, 0), 0);
	cr_assert_eq(seen.writes, 1u);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_exporter, event_is_handed_over_on_the_writers_thread)
{
	static const uint8_t payload[] = { 3, 2, 1, 0, 'a', 'b', 0 };

	start("Test-Exporter-Declared", false);
	cr_assert_eq(declared_pair(0, "nobody listens"), 0);
	cr_assert_eq(seen.writes, 0u);
	turn(&declared_pair_event_, true);
	cr_assert_eq(declared_pair(0x00010203, "ab"), 0);
	cr_assert_eq(seen.writes, 1u);
	cr_assert(pthread_equal(seen.writer, pthread_self()));
	cr_assert_eq(seen.written, export_of(&declared_pair_event_));
	cr_assert_str_eq(seen.written->def->name, "pair");
	cr_assert_eq(seen.payload_bytes, sizeof(payload));
	cr_assert_arr_eq(seen.payload, payload, sizeof(payload));
	turn(&declared_pair_event_, false);
	cr_assert_eq(declared_pair(0, "nobody listens"), 0);
	cr_assert_eq(seen.writes, 1u);
}

Test(core_exporter, session_and_exporter_have_the_event_each)
{
	struct rp_provider *provider = make_provider("Test-Both");
	struct rp_event *event = make_event(provider, 1, 0, 0);
	struct rp_listener *listener = listen_to("Test-Both");
	uint32_t value = 4711;
	struct rp_part part = { &value, sizeof(value) };

	start("Test-Both", true);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	cr_assert_eq(seen.writes, 1u);
	turn(event, false);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	cr_assert_eq(seen.writes, 1u);
	expect_payload(listener, &value, sizeof(value));
	expect_payload(listener, &value, sizeof(value));
	expect_end(listener);
	turn(event, true);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	cr_assert_eq(seen.writes, 2u, "the end of a session took the exporter's bit");
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_exporter, payload_too_large_is_reported_as_such)
{
	static uint8_t bytes[RP_PAYLOAD_MAX];
	struct rp_part parts[2] = { { bytes, sizeof(bytes) }, { bytes, 1 } };
	struct rp_provider *provider = make_provider("Test-Large");
	struct rp_event *event = make_event(provider, 1, 0, 0);

	start("Test-Large", true);
	cr_assert_eq(rp_event_write(event, parts, 1), 0);
	cr_assert_eq(seen.payload_bytes, RP_PAYLOAD_MAX);
	cr_assert_eq(rp_event_write(event, parts, 2), 0);
	cr_assert_gt(seen.payload_bytes, RP_PAYLOAD_MAX);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

/* The state in the callback's last call, which runs on a separate thread. */
static struct {
	pthread_mutex_t lock;
	struct rp_provider_state state;
	unsigned int calls;
} reported = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void on_state(struct rp_provider *provider, const struct rp_provider_state *state,
		     void *data)
{
	cr_assert_not_null(provider);
	cr_assert_null(data);
	pthread_mutex_lock(&reported.lock);
	reported.state = *state;
	reported.calls++;
	pthread_mutex_unlock(&reported.lock);
}

static unsigned int calls_so_far(void)
{
	unsigned int calls;

	pthread_mutex_lock(&reported.lock);
	calls = reported.calls;
	pthread_mutex_unlock(&reported.lock);
	return calls;
}

static void expect_call(unsigned int number, bool enabled, uint8_t level, uint64_t keywords,
			bool source_enabled)
{
	wait_until(calls_so_far() >= number);
	pthread_mutex_lock(&reported.lock);
	cr_assert_eq(reported.calls, number);
	cr_assert_eq(reported.state.enabled, enabled);
	cr_assert_eq(reported.state.level, level);
	cr_assert_eq(reported.state.keywords, keywords);
	cr_assert_eq(reported.state.source_enabled, source_enabled);
	cr_assert_null(reported.state.filter_data);
	pthread_mutex_unlock(&reported.lock);
}

Test(core_exporter, provider_receives_it_as_a_session)
{
	struct rp_provider *provider;
	struct rp_event *first, *second;
	struct rp_guid source;

	start("Test-Heard", false);
	cr_assert_eq(rp_provider_create("Test-Heard", on_state, NULL, &provider), 0);
	first = make_event(provider, 1, RP_LEVEL_ERROR, 0x1);
	second = make_event(provider, 2, RP_LEVEL_INFORMATIONAL, 0x6);
	turn(first, true);
	expect_call(1, true, RP_LEVEL_ERROR, 0x1, true);
	source = reported.state.source;
	turn(second, true);
	expect_call(2, true, RP_LEVEL_INFORMATIONAL, 0x7, true);
	cr_assert_arr_eq(source.bytes, reported.state.source.bytes, sizeof(source.bytes));
	turn(first, false);
	expect_call(3, true, RP_LEVEL_INFORMATIONAL, 0x6, true);
	turn(second, false);
	expect_call(4, false, 0, 0, false);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_exporter, callback_that_comes_late_receives_what_is_on)
{
	struct rp_provider *provider = make_provider("Test-Late");
	struct rp_event *event = make_event(provider, 1, RP_LEVEL_VERBOSE, 0x8);

	start("Test-Late", true);
	cr_assert(rp_event_enabled(event));
	cr_assert_eq(rp_provider_set_callback(provider, on_state, NULL), 0);
	expect_call(1, true, RP_LEVEL_VERBOSE, 0x8, true);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_exporter, aggregate_spans_sessions_and_exporters)
{
	struct rp_provider *provider = make_provider("Test-Spanned");
	struct rp_listener *listener;

	make_event(provider, 1, RP_LEVEL_CRITICAL, 0x1);
	start("Test-Spanned", true);
	cr_assert_eq(rp_provider_set_callback(provider, on_state, NULL), 0);
	expect_call(1, true, RP_LEVEL_CRITICAL, 0x1, true);
	listener = listen_to("Test-Spanned:100:4");
	expect_call(2, true, RP_LEVEL_INFORMATIONAL, 0x101, true);
	expect_end(listener);
	expect_call(3, true, RP_LEVEL_CRITICAL, 0x1, false);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

struct listed {
	struct rp_enabled row;
	unsigned int rows;
};

static int take_row(const struct rp_enabled *row, void *data)
{
	struct listed *listed = data;

	if (strcmp(row->provider, "Test-Listed") != 0)
		return 0;
	listed->rows++;
	listed->row = *row;
	cr_assert(!row->session_id || strcmp(row->session_name, "test") == 0);
	return 0;
}

static struct listed list(void)
{
	struct listed listed = { .rows = 0 };

	cr_assert_eq(rp_enabled_list(take_row, &listed), 0);
	return listed;
}

Test(core_exporter, what_it_could_not_take_is_listed_and_not_a_childs)
{
	static const uint8_t bytes[sizeof(seen.payload) + 1];
	const struct rp_part fits = { bytes, sizeof(seen.payload) };
	const struct rp_part large = { bytes, sizeof(bytes) };
	struct rp_provider *provider = make_provider("Test-Listed");
	struct rp_event *first = make_event(provider, 1, 0, 0), *second;
	pid_t child;
	int status;

	second = make_event(provider, 2, 0, 0);
	start("Test-Listed", false);
	turn(first, true);
	turn(second, true);
	rp_event_write(first, &fits, 1);
	cr_assert_eq(list().row.lost, 0u);
	rp_event_write(first, &large, 1);
	rp_event_write(second, &large, 1);
	cr_assert_eq(list().row.lost, 2u);
	child = fork();
	if (child == 0)
		_exit(list().row.lost != 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	turn(first, false);
	turn(second, false);
	cr_assert_eq(list().row.event_count, 0u);
	cr_assert_eq(list().row.lost, 2u);
	rp_event_destroy(second);
	cr_assert_eq(list().row.lost, 1u);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_exporter, listing_names_it)
{
	struct rp_provider *provider = make_provider("Test-Listed");
	struct rp_event *event = make_event(provider, 1, RP_LEVEL_WARNING, 0x20);
	struct listed listed = { .rows = 0 };

	make_event(provider, 2, RP_LEVEL_VERBOSE, 0x40);
	start("Test-Listed", false);
	cr_assert_eq(rp_enabled_list(take_row, &listed), 0);
	cr_assert_eq(listed.rows, 1u);
	cr_assert_eq(listed.row.session_id, 0u);
	turn(event, true);
	cr_assert_eq(rp_enabled_list(take_row, &listed), 0);
	cr_assert_eq(listed.rows, 2u);
	cr_assert_neq(listed.row.session_id, 0u);
	cr_assert_eq(listed.row.event_count, 1u);
	cr_assert_eq(listed.row.keywords, 0x20u);
	cr_assert_eq(listed.row.level, RP_LEVEL_WARNING);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_exporter, events_in_the_name_of_other_threads_are_not_reported)
{
	struct rp_provider *provider;

	start("Test-By-Name", true);
	cr_assert_eq(rp_provider_create_by_name("Test-By-Name", NULL, NULL, &provider), 0);
	cr_assert_not(rp_event_enabled(make_event(provider, 1, 0, 0)));
	cr_assert_eq(seen.added, 0u);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_exporter, eight_can_register)
{
	struct rp_exporter_ops small = ops;
	struct rp_exporter *exporter = NULL;

	small.size = sizeof(small) - 1;
	cr_assert_eq(rp_exporter_register(&small, &exporter), -EINVAL);
	snprintf(seen.prefix, sizeof(seen.prefix), "none of them");
	for (unsigned int i = 0; i < RP_EXPORTERS_MAX; i++)
		cr_assert_eq(rp_exporter_register(&ops, &exporter), 0);
	exporter = NULL;
	cr_assert_eq(rp_exporter_register(&ops, &exporter), -ENOSPC);
	cr_assert_null(exporter);
}

/* The kernel sets these bits and keeps them set in the child; all other bits are clear there. */
static void expect_in_child(const struct rp_event *event, uint64_t bits)
{
	pid_t child = fork();
	int status;

	cr_assert_geq(child, 0);
	if (child == 0)
		_exit(event->enable != bits);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

Test(core_exporter, forked_child_keeps_the_kernels_bits_alone)
{
	struct rp_provider *provider = make_provider("Test-Forked");
	struct rp_event *event = make_event(provider, 1, 0, 0);
	static struct rp_exporter_ops kernel;	/* an exporter stays as long as the process */
	struct rp_exporter *exporter;

	start("Test-Forked", true);
	kernel = ops;
	kernel.flags = RP_EXPORTER_KERNEL;
	cr_assert_eq(rp_exporter_register(&kernel, &exporter), 0);
	cr_assert_eq(event->enable, 3ull << RP_EXPORTER_BIT);
	expect_in_child(event, 2ull << RP_EXPORTER_BIT);
	cr_assert_eq(event->enable, 3ull << RP_EXPORTER_BIT);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

static unsigned int order[8], order_count;

static void before(void)
{
	order[order_count++] = 1;
}

static void in_parent(void)
{
	order[order_count++] = 2;
}

static void in_child(void)
{
	order[order_count++] = 3;
}

Test(core_exporter, fork_runs_its_handlers)
{
	static struct rp_exporter_ops handlers;
	struct rp_exporter *exporter;
	pid_t child;
	int status;

	handlers = ops;
	handlers.fork_prepare = before;
	handlers.fork_parent = in_parent;
	handlers.fork_child = in_child;
	snprintf(seen.prefix, sizeof(seen.prefix), "none of them");
	cr_assert_eq(rp_exporter_register(&handlers, &exporter), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		/* The lock is also free here. */
		make_event(make_provider("Test-Child"), 1, 0, 0);
		_exit(order_count != 2 || order[0] != 1 || order[1] != 3);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_assert_eq(order_count, 2u);
	cr_assert_eq(order[0], 1u);
	cr_assert_eq(order[1], 2u);
}
