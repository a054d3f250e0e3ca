/* SPDX-License-Identifier: MIT */
/* The batch sink, with a probe that stores its arguments and a client at a socket. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ringpipe/batch.h>

#include "core/event_batch.h"
#include "sink/batch_probe.h"
#include "sink/sinks.h"

#define SESSION 77u

static struct {
	uint8_t bytes[2 * RP_BATCH_BYTES_MAX];
	size_t size, count, fired;
	uint64_t session;
} seen;

/* Replaces the library's function. */
void rp_batch_probe(const void *events, size_t bytes, size_t count, uint64_t session_id)
{
	cr_assert_leq(bytes, RP_BATCH_BYTES_MAX);
	memcpy(seen.bytes, events, bytes);
	seen.size = bytes;
	seen.count += count;
	seen.session = session_id;
	seen.fired++;
}

static const struct rp_field members[] = { { .name = "x", .type = RP_TYPE_I32 } };
static const struct rp_field fields[] = {
	{ .name = "number", .type = RP_TYPE_U64 },
	{ .name = "place", .type = RP_TYPE_STRUCT, .members = members, .member_count = 1 },
};
static const struct rp_event_def placed = {
	.index = 9, .id = 3, .serial = 1000, .provider = "Shop", .name = "placed",
	.fields = fields, .field_count = 2, .keywords = 0x10, .version = 2, .level = 4,
};

static int client;

static struct rp_sink *start(void)
{
	struct rp_sink *sink;
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	cr_assert_eq(rp_sink_batch_create(pair[0], SESSION, "hello", 5, &sink), 0);
	client = pair[1];
	memset(&seen, 0, sizeof(seen));
	return sink;
}

static void stop(struct rp_sink *sink)
{
	sink->ops->destroy(sink);
	close(client);
}

/*
 * Makes a record in the ring's form, up to 72 KB; `flags` are the ids at the beginning of `body`.
 */
static const struct rp_record *record_of(uint8_t flags, const void *body, size_t size)
{
	static _Alignas(8) uint8_t bytes[72 << 10];
	struct rp_record *record = (struct rp_record *)bytes;

	cr_assert_leq(RP_RECORD_HEADER + size, sizeof(bytes));
	*record = (struct rp_record){
		.length = (uint32_t)(RP_RECORD_HEADER + size), .event = 4711, .ticks = 1,
		.thread = 12, .processor = 1, .flags = flags,
	};
	memcpy(record->body, body, size);
	return record;
}

static int offer_record(struct rp_sink *sink, const struct rp_event_def *def, uint64_t time_ns,
			const struct rp_record *record)
{
	struct rp_record_view view = { .def = def, .time_ns = time_ns };

	cr_assert_eq(rp_record_view(record, record->length, &view), 0);
	return sink->ops->event(sink, &view);
}

static int offer(struct rp_sink *sink, const struct rp_event_def *def, const void *payload,
		 size_t size)
{
	return offer_record(sink, def, 5, record_of(0, payload, size));
}

static void answer(unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		cr_assert_eq(write(client, "\1", 1), 1);
}

/* A sink whose client knows `placed`. */
static struct rp_sink *start_ready(void)
{
	struct rp_sink *sink = start();

	cr_assert_eq(offer(sink, &placed, "", 0), -EAGAIN);
	answer(1);
	return sink;
}

static size_t received(void *bytes, size_t space)
{
	ssize_t got = recv(client, bytes, space, MSG_DONTWAIT);

	return got > 0 ? (size_t)got : 0;
}

static void expect_text(const uint8_t **at, const char *text)
{
	uint32_t bytes;

	memcpy(&bytes, *at, sizeof(bytes));
	cr_assert_eq(bytes, strlen(text));
	cr_expect_eq(memcmp(*at + 4, text, bytes), 0, "%s", text);
	*at += 4 + bytes;
}

static void expect_u32(const uint8_t **at, uint32_t wanted)
{
	uint32_t value;

	memcpy(&value, *at, sizeof(value));
	cr_expect_eq(value, wanted, "%u, not %u", value, wanted);
	*at += sizeof(value);
}

static void expect_u64(const uint8_t **at, uint64_t wanted)
{
	uint64_t value;

	memcpy(&value, *at, sizeof(value));
	cr_expect_eq(value, wanted);
	*at += sizeof(value);
}

static void expect_field(const uint8_t **at, uint8_t type, uint16_t member_count, const char *name)
{
	cr_expect_eq((*at)[0], type);
	cr_expect_eq((*at)[1], 0);
	cr_expect_eq((*at)[2] | (*at)[3] << 8, member_count);
	*at += 4;
	expect_text(at, name);
}

Test(sink_batch, a_definition_is_reported_after_the_preamble)
{
	struct rp_sink *sink = start();
	uint8_t bytes[512];
	const uint8_t *at = bytes + 5;
	size_t size;

	cr_expect_eq(offer(sink, &placed, "", 0), -EAGAIN);
	size = received(bytes, sizeof(bytes));
	cr_assert_geq(size, 5);
	cr_expect_eq(memcmp(bytes, "hello", 5), 0);
	expect_u32(&at, 1);
	expect_u32(&at, (uint32_t)(size - 5 - 8));
	expect_u32(&at, 0);
	expect_u32(&at, placed.id);
	expect_u32(&at, placed.version);
	expect_u32(&at, placed.level);
	expect_u64(&at, placed.keywords);
	expect_text(&at, "Shop");
	expect_text(&at, "placed");
	expect_u32(&at, 2);
	expect_field(&at, RP_TYPE_U64, 0, "number");
	expect_field(&at, RP_TYPE_STRUCT, 1, "place");
	expect_field(&at, RP_TYPE_I32, 0, "x");
	cr_expect_eq(at, bytes + size);
	stop(sink);
}

Test(sink_batch, no_event_is_taken_before_its_definition_is_answered)
{
	struct rp_sink *sink = start();

	for (int i = 0; i < 3; i++)
		cr_expect_eq(offer(sink, &placed, "", 0), -EAGAIN);
	cr_expect_eq(sink->ops->flush(sink), 0);
	cr_expect_eq(seen.fired, 0);
	answer(1);
	cr_expect_eq(offer(sink, &placed, "", 0), 0);
	cr_expect_eq(sink->ops->flush(sink), 0);
	cr_expect_eq(seen.count, 1);
	cr_expect_eq(sink->delivered, 1);
	stop(sink);
}

Test(sink_batch, events_lie_as_the_header_says)
{
	struct rp_sink *sink = start_ready();
	static const char body[] = "activity…activityrelated…relatedabcde";
	const size_t size = strlen(body);
	const struct rp_batch_event *event = (const struct rp_batch_event *)seen.bytes;
	const struct rp_record *record =
		record_of(RP_RECORD_ACTIVITY | RP_RECORD_RELATED, body, size);

	cr_expect_eq(offer_record(sink, &placed, 123456789, record), 0);
	cr_expect_eq(offer(sink, &placed, "12345678", 8), 0);
	cr_expect_eq(sink->ops->flush(sink), 0);
	cr_expect_eq(seen.session, SESSION);
	cr_expect_eq(seen.count, 2);
	cr_expect_eq(event->bytes, sizeof(*event) + size);
	cr_expect_eq(event->event, 0);
	cr_expect_eq(event->time_ns, 123456789);
	cr_expect_eq(event->thread, 12);
	cr_expect_eq(event->processor, 1);
	cr_expect_eq(event->frames, 0);
	cr_expect_eq(event->flags, RP_BATCH_ACTIVITY | RP_BATCH_RELATED);
	cr_expect_eq(memcmp(event + 1, body, size), 0);
	event = (const struct rp_batch_event *)(seen.bytes + ((event->bytes + 7) & ~7u));
	cr_expect_eq(event->bytes, sizeof(*event) + 8);
	cr_expect_eq(event->time_ns, 5);
	cr_expect_eq(event->flags, 0);
	cr_expect_eq(memcmp(event + 1, "12345678", 8), 0);
	cr_expect_eq((const uint8_t *)event + event->bytes, seen.bytes + seen.size);
	stop(sink);
}

/* Sizes around the one at which the copy method changes. */
Test(sink_batch, payloads_of_all_sizes_come_whole)
{
	struct rp_sink *sink = start_ready();
	const uint8_t *at = seen.bytes;
	uint8_t payload[400];

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7 + 1);
	for (size_t size = 0; size < 300; size++)
		cr_assert_eq(offer(sink, &placed, payload + size % 3, size), 0);
	cr_expect_eq(sink->ops->flush(sink), 0);
	cr_assert_eq(seen.fired, 1, "they fit into one batch");
	for (size_t size = 0; size < 300; size++) {
		const struct rp_batch_event *event = (const struct rp_batch_event *)at;

		cr_assert_eq(event->bytes, sizeof(*event) + size);
		cr_expect_eq(memcmp(event + 1, payload + size % 3, size), 0, "%zu", size);
		at += (event->bytes + 7) & ~7u;
	}
	cr_expect_eq(at, seen.bytes + seen.size);
	stop(sink);
}

Test(sink_batch, a_full_batch_is_fired_and_nothing_remains)
{
	struct rp_sink *sink = start_ready();
	static const uint8_t payload[1000];
	unsigned int given = 0;

	while (seen.fired < 2) {
		cr_assert_eq(offer(sink, &placed, payload, sizeof(payload)), 0);
		given++;
	}
	cr_expect_geq(given, 2 * (RP_BATCH_BYTES_MAX / (sizeof(payload) + 100)));
	cr_expect_eq(sink->delivered + sink->pending, given);
	cr_expect_eq(sink->ops->flush(sink), 0);
	cr_expect_eq(seen.count, given);
	cr_expect_eq(sink->delivered, given);
	cr_expect_eq(sink->pending, 0);
	cr_expect_eq(sink->ops->flush(sink), 0);
	cr_expect_eq(seen.fired, 3, "fired without an event");
	stop(sink);
}

Test(sink_batch, a_payload_that_a_batch_cannot_hold_is_cut_and_counted)
{
	struct rp_sink *sink = start_ready();
	static const uint8_t payload[RP_PAYLOAD_MAX];
	const struct rp_batch_event *event = (const struct rp_batch_event *)seen.bytes;

	cr_expect_eq(offer(sink, &placed, payload, sizeof(payload)), 0);
	cr_expect_eq(sink->ops->flush(sink), 0);
	cr_expect_eq(event->flags, RP_BATCH_CUT);
	cr_expect_eq(event->bytes, RP_BATCH_BYTES_MAX);
	cr_expect_eq(seen.size, RP_BATCH_BYTES_MAX);
	cr_expect_eq(sink->shortened, 1);
	stop(sink);
}

Test(sink_batch, an_index_used_again_is_another_definition)
{
	struct rp_sink *sink = start_ready();
	const struct rp_batch_event *event = (const struct rp_batch_event *)seen.bytes;
	struct rp_event_def other = placed;

	other.serial++;
	cr_expect_eq(offer(sink, &other, "", 0), -EAGAIN);
	answer(1);
	cr_expect_eq(offer(sink, &other, "", 0), 0);
	cr_expect_eq(sink->ops->flush(sink), 0);
	cr_expect_eq(event->event, 1);
	stop(sink);
}

Test(sink_batch, ringpipes_own_events_are_left_to_the_stats)
{
	struct rp_sink *sink = start();
	struct rp_event_def own = placed;
	struct rp_record_view view = { .def = &own, .payload = "" };	/* not in a ring */

	own.index = RP_DEF_LOST_INDEX;
	cr_expect_eq(sink->ops->event(sink, &view), 0);
	cr_expect_eq(sink->ops->flush(sink), 0);
	cr_expect_eq(seen.fired, 0);
	cr_expect_eq(sink->delivered, 0);
	stop(sink);
}

Test(sink_batch, the_end_is_reported_once_with_what_was_lost)
{
	struct rp_sink *sink = start_ready();
	uint8_t bytes[512];
	const uint8_t *at = bytes;

	cr_expect_eq(offer(sink, &placed, "", 0), 0);
	received(bytes, sizeof(bytes));
	cr_expect_eq(sink->ops->finish(sink, 9, 42), 0);
	cr_expect_eq(sink->ops->finish(sink, 9, 42), 0);
	cr_expect_eq(seen.count, 1, "the last batch comes before the end");
	cr_expect_eq(received(bytes, sizeof(bytes)), 32);
	expect_u32(&at, 3);
	expect_u32(&at, 24);
	expect_u64(&at, 1);
	expect_u64(&at, 42);
	expect_u64(&at, 0);
	stop(sink);
}

Test(sink_batch, a_client_that_answers_without_a_request_fails_the_sink)
{
	struct rp_sink *sink = start();

	cr_expect_eq(offer(sink, &placed, "", 0), -EAGAIN);
	answer(2);
	cr_expect_eq(offer(sink, &placed, "", 0), -EPIPE);
	cr_expect_eq(seen.fired, 0);
	stop(sink);
}

Test(sink_batch, a_client_that_is_gone_fails_the_sink)
{
	struct rp_sink *sink = start();

	cr_expect_eq(offer(sink, &placed, "", 0), -EAGAIN);
	shutdown(client, SHUT_RDWR);
	cr_expect_eq(offer(sink, &placed, "", 0), -EPIPE);
	stop(sink);
}

Test(sink_batch, a_client_that_takes_nothing_gets_no_more_stats)
{
	struct rp_sink *sink = start();
	char full[4096] = "";
	uint64_t memory;

	/* Writes into the sink's end, so that the connection is full. */
	while (send(sink->fd, full, sizeof(full), MSG_DONTWAIT) > 0)
		;
	cr_expect_eq(sink->ops->flush(sink), -EAGAIN);
	memory = sink->memory_bytes;
	for (uint64_t i = 0; i < 10000; i++)
		cr_assert_eq(sink->ops->sequence_point(sink, i, i), 0);
	cr_expect_eq(sink->memory_bytes, memory);
	cr_expect_eq(sink->ops->finish(sink, 1, 1), -EAGAIN);
	stop(sink);
}
