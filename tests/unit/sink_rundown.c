/* SPDX-License-Identifier: MIT */
/* The rundown in the stream: complete, even with small buffers and a slow reader. */
#include "core_support.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#include "base/clock.h"
#include "core/own.h"
#include "core/session_pass.h"

#define FUNCTIONS 20000u
#define PIECE 4096u

static const struct rp_event_decl decl = {
	.size = sizeof(decl), .id = 1, .name = "There", .level = RP_LEVEL_INFORMATIONAL,
};

struct reading {
	int fd;
	char *bytes;
	size_t size;
};

/*
 * Reads little at a time, so that the sink is often full. Criterion's assertions work in one thread
 * only: without memory, the recording is just short.
 */
static void *read_with_pauses(void *data)
{
	struct reading *reading = data;
	ssize_t got;

	do {
		char *grown = realloc(reading->bytes, reading->size + PIECE);

		if (!grown)
			break;
		reading->bytes = grown;
		got = read(reading->fd, reading->bytes + reading->size, PIECE);
		reading->size += got > 0 ? (size_t)got : 0;
	} while (got > 0);
	return NULL;
}

/* Events whose stacks lead through every function of the fixture. */
static void write_stacks(struct rp_event *event, const char *functions)
{
	uint64_t frames[RP_STACK_MAX];
	struct rp_origin origin = {
		.thread = (uint32_t)gettid(), .frame_count = RP_STACK_MAX, .frames = frames,
	};

	for (unsigned int i = 0; i < FUNCTIONS; i++) {
		frames[i % RP_STACK_MAX] = (uint64_t)(uintptr_t)functions + 4 * (uint64_t)i + 1;
		if (i % RP_STACK_MAX == RP_STACK_MAX - 1)
			cr_assert_eq(rp_event_write_for(event, NULL, 0, &origin), 0);
	}
}

/* RundownDone: milliseconds, symbols, addresses, addresses left out; bytes; the reason. */
struct done {
	unsigned int count;
	uint32_t symbols;
	char why[128];
};

static void read_done(const struct rp_reader_event *event, struct done *done)
{
	const char *payload = event->payload;

	cr_assert_gt(event->payload_bytes, 24u);
	done->count++;
	memcpy(&done->symbols, payload + 4, sizeof(done->symbols));
	/* UTF-16 with only ASCII letters. */
	for (size_t i = 0; i + 1 < sizeof(done->why) && 24 + 2 * i < event->payload_bytes; i++)
		done->why[i] = payload[24 + 2 * i];
}

static void count_events(const struct reading *reading, unsigned int *ret_symbols,
			 struct done *ret_done)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	int ret;

	*ret_symbols = 0;
	memset(ret_done, 0, sizeof(*ret_done));
	cr_assert_eq(rp_reader_open_memory(reading->bytes, reading->size, &reader), 0);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		*ret_symbols += strcmp(event.type->name, "ProcessSymbol") == 0;
		if (strcmp(event.type->name, "RundownDone") == 0)
			read_done(&event, ret_done);
	}
	cr_assert_eq(ret, 0, "%s", rp_reader_error(reader));
	rp_reader_close(reader);
}

Test(sink_rundown, is_whole_however_slow_its_reader, .timeout = 120)
{
	void *library = dlopen(MANY_FUNCTIONS, RTLD_NOW);
	struct rp_session_options options = options_for("Test-Rundown");
	struct rp_provider *provider;
	struct rp_event *event;
	struct rp_session *session;
	struct reading reading = { 0 };
	struct rp_session_stats stats = empty_stats();
	uint64_t begun_ns, took_ns;
	unsigned int symbols;
	struct done done;
	pthread_t thread;
	int ends[2], ret;

	cr_assert_not_null(library, "%s", dlerror());
	cr_assert_eq(rp_provider_create("Test-Rundown", NULL, NULL, &provider), 0);
	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	cr_assert_eq(pipe(ends), 0);
	reading.fd = ends[0];
	cr_assert_eq(pthread_create(&thread, NULL, read_with_pauses, &reading), 0);
	options.output_fd = ends[1];
	options.buffer_bytes = 0;	/* for the events, which this test ignores */
	cr_assert_eq(rp_session_start(&options, &session), 0);
	write_stacks(event, dlsym(library, "many_functions"));
	begun_ns = rp_clock_monotonic_ns();
	ret = rp_session_stop(session, &stats);
	took_ns = rp_clock_monotonic_ns() - begun_ns;
	pthread_join(thread, NULL);
	/* A stop waits at most 10 s for a slow reader, and this one needs hundreds of turns. */
	if (ret == -ETIMEDOUT && took_ns >= RP_SLOW_NS)
		cr_skip_test("the machine runs the reader too slowly");
	cr_assert_eq(ret, 0, "%s after %" PRIu64 " ns", strerror(-ret), took_ns);
	cr_assert_eq(stats.lost, 0);
	count_events(&reading, &symbols, &done);
	cr_assert_eq(done.count, 1u);
	cr_assert_eq(symbols, done.symbols);
	/* Reading symbols also has a time limit. */
	if (MODULE && strcmp(done.why, "reading symbols took too long") != 0)
		cr_assert_eq(symbols, FUNCTIONS, "%s", done.why);
	rp_provider_destroy(provider);
	free_options(&options);
	free(reading.bytes);
	close(ends[0]);
	dlclose(library);
}
