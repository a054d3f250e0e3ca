/* SPDX-License-Identifier: MIT */
/* Listeners: the events they get, the losses of a slow one, and how they end. */
#include "core_support.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

RP_PROVIDER(heard, "Test-Heard");
RP_EVENT(heard, mark, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U64(serial));
RP_EVENT(heard, bulk, 2, RP_LEVEL_INFORMATIONAL, 2, RP_U64(serial), RP_BLOB(bytes));
RP_PROVIDER(other, "Test-Other");
RP_EVENT(other, mark, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U64(serial));

static bool is_own(const struct rp_listener_event *event)
{
	return strcmp(event->provider, "Test-Heard") == 0;
}

static uint64_t serial_of(const struct rp_listener_event *event)
{
	uint64_t serial;

	memcpy(&serial, event->payload, sizeof(serial));
	return serial;
}

Test(core_listener, next_waits_no_longer_than_asked)
{
	struct rp_listener *listener = listen_to("Test-Heard");
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;

	cr_assert_eq(rp_listener_next(listener, &event, 0), 0);
	cr_assert_eq(rp_listener_next(listener, &event, 20), 0);
	cr_assert_eq(heard_mark(1), 0);
	cr_assert_eq(rp_listener_next(listener, &event, -1), 1);
	cr_assert_eq(serial_of(&event), 1u);
	expect_end(listener);
}

Test(core_listener, wrong_options_are_refused)
{
	struct rp_session_options options = options_for("Test-Heard");
	struct rp_listener *listener = NULL;

	options.size = RP_SESSION_OPTIONS_SIZE_V1 - 1;
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listener), -EINVAL);
	options.size++;
	options.provider_count = 0;
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listener), -EINVAL);
	cr_assert_eq(rp_listener_start(NULL, NULL, NULL, &listener), -EINVAL);
	cr_assert_null(listener);
	free_options(&options);
	cr_assert_eq(rp_listener_stop(NULL, NULL), 0);
}

Test(core_listener, outputs_of_the_options_are_not_looked_at)
{
	struct rp_session_options options = options_for("Test-Heard");
	struct rp_listener *listener;

	options.output_path = "/nonexistent/trace";
	options.output_fd = 12345;
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listener), 0);
	free_options(&options);
	expect_end(listener);
}

/* Events that a push listener received. */
struct heard {
	uint64_t events, last, disordered, gaps;
	uint64_t reported_lost;	/* by EventsLost events */
	sem_t *gate;		/* waited for at the first event */
	bool at_gate;
};

static uint64_t lost_count(const struct rp_listener_event *event)
{
	uint64_t count;

	memcpy(&count, (const char *)event->payload + event->payload_bytes - 8, 8);
	return count;
}

static void hear(const struct rp_listener_event *event, void *data)
{
	struct heard *heard = data;
	uint64_t serial;

	cr_assert_eq(event->size, sizeof(*event));
	if (!is_own(event)) {
		cr_assert_str_eq(event->provider, "ringpipe");
		cr_assert_str_eq(event->name, "EventsLost");
		heard->reported_lost += lost_count(event);
		return;
	}
	if (heard->gate && heard->events == 0) {
		__atomic_store_n(&heard->at_gate, true, __ATOMIC_SEQ_CST);
		while (sem_wait(heard->gate) != 0)
			;
	}
	serial = serial_of(event);
	heard->disordered += serial <= heard->last;
	heard->gaps += serial - heard->last - 1;
	heard->last = serial;
	heard->events++;
}

/* As many as the smallest ring holds. */
Test(core_listener, push_listener_has_seen_everything_when_close_returns)
{
	struct rp_session_stats stats = empty_stats();
	struct heard heard = { .events = 0 };
	struct rp_listener *listener = push_to(hear, &heard, "Test-Heard", 0);
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;

	for (uint64_t serial = 1; serial <= 3000; serial++)
		cr_assert_eq(heard_mark(serial), 0);
	cr_assert_eq(rp_listener_next(listener, &event, 0), -EINVAL);
	cr_assert_eq(rp_listener_drain(listener), 0);
	cr_assert_eq(heard.events, 3000u);
	cr_assert_eq(heard.disordered, 0u);
	cr_assert_eq(heard.last, 3000u);
	cr_assert_not(heard_mark_enabled());
	cr_assert_eq(rp_listener_drain(listener), 0, "closing twice is fine");
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(stats.delivered, 3000u);
	cr_assert_eq(stats.lost, 0u);
}

Test(core_listener, pull_listener_reads_on_after_close)
{
	struct rp_session_stats stats = empty_stats();
	struct rp_listener *listener = listen_to("Test-Heard");
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;

	for (uint64_t serial = 1; serial <= 1000; serial++)
		cr_assert_eq(heard_mark(serial), 0);
	cr_assert_eq(rp_listener_drain(listener), 0);
	for (uint64_t serial = 1; serial <= 1000; serial++) {
		expect_event(listener, &event);
		cr_assert_eq(serial_of(&event), serial);
	}
	cr_assert_eq(rp_listener_next(listener, &event, -1), -EPIPE);
	cr_assert_eq(rp_listener_next(listener, &event, 0), -EPIPE);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(stats.delivered, 1000u);
}

Test(core_listener, stop_discards_and_counts_what_was_not_read)
{
	struct rp_session_stats stats = empty_stats();
	struct rp_listener *listener = listen_to("Test-Heard");
	struct rp_listener_event event;

	for (uint64_t serial = 1; serial <= 1000; serial++)
		cr_assert_eq(heard_mark(serial), 0);
	for (int i = 0; i < 10; i++)
		expect_event(listener, &event);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(stats.delivered, 10u);
	cr_assert_eq(stats.lost, 990u);
	cr_assert_eq(stats.lost_by[RP_LOSS_SINK], 990u);
	cr_assert_eq(stats.memory_bytes, 0u);
}

/*
 * Posts the callback's gate once the listener's events are disabled, and a later pass of the drain
 * thread has ended: that pass would discard the pending events.
 */
static void *open_gate_when_off(void *gate)
{
	wait_until(!heard_mark_enabled());
	cr_assert_eq(rp_sessions_flush(PATIENCE_MS), 0);
	sem_post(gate);
	return NULL;
}

static struct rp_listener *push_to_gate(struct heard *heard, sem_t *gate)
{
	struct rp_listener *listener;

	sem_init(gate, 0, 0);
	heard->gate = gate;
	listener = push_to(hear, heard, "Test-Heard", 0);
	for (uint64_t serial = 1; serial <= 3000; serial++)
		cr_assert_eq(heard_mark(serial), 0);
	wait_until(__atomic_load_n(&heard->at_gate, __ATOMIC_SEQ_CST));
	return listener;
}

Test(core_listener, stop_of_a_push_listener_gives_its_callback_every_pending_event)
{
	struct rp_session_stats stats = empty_stats();
	struct heard heard = { .events = 0 };
	struct rp_listener *listener;
	pthread_t opener;
	sem_t gate;

	listener = push_to_gate(&heard, &gate);
	cr_assert_eq(pthread_create(&opener, NULL, open_gate_when_off, &gate), 0);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	pthread_join(opener, NULL);
	cr_assert_eq(heard.events, 3000u);
	cr_assert_eq(heard.disordered, 0u);
	cr_assert_eq(stats.delivered, 3000u);
	cr_assert_eq(stats.lost, 0u);
}

Test(core_listener, discard_drops_and_counts_every_pending_event)
{
	struct rp_session_stats stats = empty_stats();
	struct heard heard = { .events = 0 };
	struct rp_listener *listener;
	sem_t gate;

	listener = push_to_gate(&heard, &gate);
	rp_listener_discard(listener);
	cr_assert_not(heard_mark_enabled());
	wait_until(rp_listener_get_stats(listener, &stats) == 0 && stats.lost == 2999);
	sem_post(&gate);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(heard.events, 1u);
	cr_assert_eq(stats.delivered, 1u);
	cr_assert_eq(stats.lost_by[RP_LOSS_SINK], 2999u);
}

#define BULK_BYTES 4000

/* Writes more than the chunks and rings of a 1 MB session hold. Returns how many were accepted. */
static uint64_t write_too_much(uint64_t count)
{
	static const char bytes[BULK_BYTES];
	uint64_t taken = 0;

	for (uint64_t serial = 1; serial <= count; serial++)
		taken += heard_bulk(serial, bytes, sizeof(bytes)) == 0;
	return taken;
}

/* The bulk is twice what the sink of a listener holds, so the last event waits in its ring. */
Test(core_listener, event_whose_definition_went_while_it_waited_is_still_reported)
{
	static const struct rp_field fields[] = {
		{ "serial", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
	};
	const struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 7, .level = RP_LEVEL_INFORMATIONAL, .name = "gone",
		.fields = fields, .field_count = 1,
	};
	static const uint64_t serial = 5;
	const struct rp_part part = { &serial, sizeof(serial) };
	struct rp_session_options options = options_for("Test-Heard");
	struct rp_listener_event event;
	struct rp_listener *listener;
	struct rp_provider *provider;
	struct rp_event *gone;

	options.buffer_bytes = 16u << 20;
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listener), 0);
	free_options(&options);
	cr_assert_eq(write_too_much(500), 500u);
	cr_assert_eq(rp_provider_create("Test-Heard", NULL, NULL, &provider), 0);
	cr_assert_eq(rp_event_create(provider, &decl, &gone), 0);
	cr_assert_eq(rp_event_write(gone, &part, 1), 0);
	rp_event_destroy(gone);
	rp_provider_destroy(provider);
	/* Each flush waits for a pass of the drain thread, which frees retired definitions. */
	for (int i = 0; i < 3; i++)
		cr_assert_eq(rp_sessions_flush(-1), 0);
	for (int i = 0; i < 500; i++)
		expect_event(listener, &event);
	expect_event(listener, &event);
	cr_assert_str_eq(event.name, "gone");
	cr_assert_eq(serial_of(&event), serial);
	expect_end(listener);
}

Test(core_listener, slow_listener_loses_and_counts_and_delays_no_other, .timeout = 240)
{
	struct rp_session_stats stats = empty_stats();
	struct rp_listener *slow, *other;
	struct heard heard = { .events = 0 };
	struct rp_listener_event event;
	uint64_t taken;
	sem_t gate;

	sem_init(&gate, 0, 0);
	heard.gate = &gate;
	slow = push_to(hear, &heard, "Test-Heard:2", 0);
	other = listen_to("Test-Other");
	taken = write_too_much(1000);
	wait_until(__atomic_load_n(&heard.at_gate, __ATOMIC_SEQ_CST));
	for (uint64_t serial = 1; serial <= 20; serial++) {
		cr_assert_eq(other_mark(serial), 0);
		expect_event(other, &event);
		cr_assert_eq(serial_of(&event), serial);
	}
	expect_end(other);
	sem_post(&gate);
	cr_assert_eq(rp_listener_drain(slow), 0);
	cr_assert_eq(rp_listener_stop(slow, &stats), 0);
	cr_assert_lt(taken, 1000u, "it was meant to lose some");
	cr_assert_eq(heard.disordered, 0u);
	cr_assert_eq(heard.events, taken, "what was not refused was delivered");
	cr_assert_eq(stats.delivered, taken);
	cr_assert_eq(stats.lost, 1000 - taken);
	cr_assert_eq(heard.reported_lost, 1000 - taken, "and told in the stream");
	cr_assert_eq(heard.gaps + (1000 - heard.last), 1000 - taken, "seen from outside");
}

Test(core_listener, delivered_and_lost_make_offered_while_it_reads_as_it_can, .timeout = 240)
{
	struct rp_session_stats stats = empty_stats();
	struct heard heard = { .events = 0 };
	struct rp_listener *listener = push_to(hear, &heard, "Test-Heard", 0);
	uint64_t taken = write_too_much(50000);

	cr_assert_eq(rp_listener_drain(listener), 0);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(heard.events, taken);
	cr_assert_eq(stats.delivered, taken);
	cr_assert_eq(stats.delivered + stats.lost, 50000u);
	cr_assert_eq(heard.gaps + (50000 - heard.last), stats.lost);
	cr_assert_eq(heard.reported_lost, stats.lost);
}

static struct rp_listener *the_listener;
static int close_result = 1, stop_result = 1;

static void end_self(const struct rp_listener_event *event, void *data)
{
	(void)data;
	if (!is_own(event))
		return;
	while (!__atomic_load_n(&the_listener, __ATOMIC_ACQUIRE))
		poll(NULL, 0, 1);
	close_result = rp_listener_drain(the_listener);
	stop_result = rp_listener_stop(the_listener, NULL);
}

Test(core_listener, own_callback_cannot_end_the_listener, .timeout = 120)
{
	struct rp_session_stats stats = empty_stats();
	struct rp_listener *listener = push_to(end_self, NULL, "Test-Heard", 0);

	__atomic_store_n(&the_listener, listener, __ATOMIC_RELEASE);
	cr_assert_eq(heard_mark(1), 0);
	cr_assert_eq(rp_listener_drain(listener), 0);
	cr_assert_eq(close_result, -EDEADLK);
	cr_assert_eq(stop_result, -EDEADLK);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(stats.delivered, 1u);
}

struct writer {
	pthread_t thread;
	uint64_t number, taken;
};

#define WRITERS 4
#define EACH 20000u

static void *write_serials(void *data)
{
	struct writer *writer = data;

	for (uint64_t serial = 1; serial <= EACH; serial++)
		writer->taken += heard_mark(writer->number << 32 | serial) == 0;
	return NULL;
}

struct threads_heard {
	uint64_t last[WRITERS], events, disordered, last_ns, back_in_time, gaps;
};

static void hear_threads(const struct rp_listener_event *event, void *data)
{
	struct threads_heard *heard = data;
	uint64_t serial, writer;

	heard->back_in_time += event->time_ns < heard->last_ns;
	heard->last_ns = event->time_ns;
	if (!is_own(event))
		return;
	serial = (uint32_t)serial_of(event);
	writer = serial_of(event) >> 32;
	heard->disordered += serial <= heard->last[writer];
	heard->gaps += serial - heard->last[writer] - 1;
	heard->last[writer] = serial;
	heard->events++;
}

Test(core_listener, events_of_many_threads_come_in_time_and_program_order, .timeout = 240)
{
	struct rp_session_stats stats = empty_stats();
	struct writer writers[WRITERS] = { { .number = 0 } };
	struct threads_heard heard = { .events = 0 };
	struct rp_listener *listener = push_to(hear_threads, &heard, "Test-Heard", 0);
	uint64_t taken = 0, gaps;

	for (uint64_t i = 0; i < WRITERS; i++) {
		writers[i].number = i;
		cr_assert_eq(pthread_create(&writers[i].thread, NULL, write_serials, &writers[i]),
			     0);
	}
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		taken += writers[i].taken;
	}
	cr_assert_eq(rp_listener_drain(listener), 0);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	gaps = heard.gaps;
	for (int i = 0; i < WRITERS; i++)
		gaps += EACH - heard.last[i];
	cr_assert_eq(heard.back_in_time, 0u);
	cr_assert_eq(heard.disordered, 0u);
	cr_assert_eq(heard.events, taken);
	cr_assert_eq(gaps, stats.lost);
	cr_assert_eq(stats.delivered + stats.lost, (uint64_t)WRITERS * EACH);
}
