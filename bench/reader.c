/* SPDX-License-Identifier: MIT */
/*
 * Measures how fast the library reads a trace.
 *
 *	reader FILE write EVENTS	writes a trace of three kinds of events from two threads
 *	reader FILE write-json EVENTS	writes a trace of JSON events
 *	reader FILE write-typed EVENTS	writes the same values as events with fields
 *	reader FILE read		reads it in rounds, after rounds that only read its bytes
 *
 * A reading takes each event with its type, times and ids, and adds up the first field.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include <ringpipe/json_events.h>
#include <ringpipe/reader.h>
#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define ROUNDS 9u
#define BUFFER_BYTES (32u << 20)
#define WAIT_MS 60000u

RP_PROVIDER(bench, "Bench-Reader");
RP_EVENT(bench, small, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a));
RP_EVENT(bench, four, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(bench, text, 3, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_STRING(name));
RP_EVENT(bench, order, 4, RP_LEVEL_INFORMATIONAL, 0, RP_U64(id), RP_U32(items), RP_F64(price),
	 RP_STRING(customer));
RP_JSON_EVENTS(bench);

/* A kind of trace. */
struct trace_kind {
	const char *command;
	void (*write)(uint64_t number);
};

/* Writes one half of the events of a trace. */
struct writer {
	void (*write)(uint64_t number);
	uint64_t count;
};

static void fail(const char *what, int error)
{
	fprintf(stderr, "reader: %s: %s\n", what, strerror(error));
	exit(1);
}

static void write_any(uint64_t i)
{
	if (i % 4 == 3)
		bench_text(i, "a customer's name");
	else if (i % 2)
		bench_four(i, i, i, i);
	else
		bench_small(i);
}

static void write_json(uint64_t i)
{
	char text[128];

	snprintf(text, sizeof(text), "{\"id\":%" PRIu64 ",\"items\":%" PRIu64 ",\"price\":%.3f,"
		 "\"customer\":\"a customer's name\"}", i, i % 1000, (double)i / 8);
	RP_JSON(bench, RP_LEVEL_INFORMATIONAL, "orders", text);
}

static void write_typed(uint64_t i)
{
	bench_order(i, (uint32_t)(i % 1000), (double)i / 8, "a customer's name");
}

static const struct trace_kind kinds[] = {
	{ "write", write_any }, { "write-json", write_json }, { "write-typed", write_typed },
};

static void *write_events(void *data)
{
	const struct writer *writer = data;

	for (uint64_t i = 0; i < writer->count; i++)
		writer->write(i);
	return NULL;
}

static void write_trace(const char *path, const struct trace_kind *kind, uint64_t count)
{
	struct rp_session_provider provider = RP_SESSION_PROVIDER_INIT;
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;
	struct writer half = { kind->write, count / 2 };
	struct rp_session *session;
	pthread_t other;
	int ret;

	provider.name = "Bench-Reader";
	options.providers = &provider;
	options.provider_count = 1;
	options.buffer_bytes = BUFFER_BYTES;
	options.output_path = path;
	options.block_ms = WAIT_MS;
	ret = rp_session_start(&options, &session);
	if (ret)
		fail(path, -ret);
	ret = pthread_create(&other, NULL, write_events, &half);
	if (ret)
		fail("pthread_create", ret);
	write_events(&half);
	pthread_join(other, NULL);
	ret = rp_session_stop(session, NULL);
	if (ret)
		fail(path, -ret);
}

/* The processor's time of this thread. */
static double used_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

static double read_bytes(const char *path)
{
	static char buffer[1 << 16];
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const double begin = used_ns();
	ssize_t got;

	if (fd < 0)
		fail(path, errno);
	while ((got = read(fd, buffer, sizeof(buffer))) > 0)
		__asm__ volatile("" : : "r"(buffer) : "memory");
	close(fd);
	return used_ns() - begin;
}

static double read_events(const char *path, uint64_t *ret_events)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	uint64_t sum = 0, events = 0;
	struct rp_reader *reader;
	const double begin = used_ns();
	int ret = rp_reader_open(path, &reader);

	if (ret)
		fail(path, -ret);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		uint64_t value = 0;

		if (event.payload_bytes >= sizeof(value))
			memcpy(&value, event.payload, sizeof(value));
		sum += value + (uint64_t)event.time_ns + event.thread + event.type->id;
		events++;
	}
	if (ret)
		fail(rp_reader_error(reader), -ret);
	rp_reader_close(reader);
	__asm__ volatile("" : : "r"(sum));
	*ret_events = events;
	return used_ns() - begin;
}

int main(int argc, char **argv)
{
	const unsigned int rounds = bench_rounds(ROUNDS);
	double bytes[ROUNDS], events[ROUNDS];
	uint64_t count = 0;

	for (size_t i = 0; argc == 4 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(argv[2], kinds[i].command) == 0) {
			write_trace(argv[1], &kinds[i], strtoull(argv[3], NULL, 10));
			return 0;
		}
	}
	if (argc != 3 || strcmp(argv[2], "read") != 0) {
		fprintf(stderr,
			"usage: reader FILE (write|write-json|write-typed EVENTS | read)\n");
		return 2;
	}
	for (unsigned int i = 0; i < rounds; i++) {
		bytes[i] = read_bytes(argv[1]);
		events[i] = read_events(argv[1], &count);
	}
	for (unsigned int i = 0; i < rounds; i++) {
		bytes[i] /= (double)count;
		events[i] /= (double)count;
	}
	figure("events", (double)count, "");
	figure_rounds("read(2)", bytes, rounds);
	figure_rounds("ringpipe", events, rounds);
	return 0;
}
