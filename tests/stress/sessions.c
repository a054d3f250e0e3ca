/* SPDX-License-Identifier: MIT */
/*
 * The maximum number of sessions, on the same events, each with different keywords, level and ids.
 * A write is offered to each session that wants its event. The call returns 0 if and only if all of
 * these sessions recorded it, and each session's losses are exactly the wanted serials that it
 * lacks.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress.h"

#define PROVIDER "Stress-Sessions"
#define SESSIONS RP_SESSIONS_MAX
#define EVENTS 6u
#define WRITERS 3u

RP_PROVIDER(stress, PROVIDER);
#define FIELDS RP_U64(stream), RP_U64(serial), RP_BLOB(filling)
RP_EVENT(stress, one, 1, RP_LEVEL_CRITICAL, 0x1, FIELDS);
RP_EVENT(stress, two, 2, RP_LEVEL_ERROR, 0x2, FIELDS);
RP_EVENT(stress, three, 3, RP_LEVEL_WARNING, 0x4, FIELDS);
RP_EVENT(stress, four, 4, RP_LEVEL_INFORMATIONAL, 0x1, FIELDS);
RP_EVENT(stress, five, 5, RP_LEVEL_VERBOSE, 0x6, FIELDS);
RP_EVENT(stress, six, 6, RP_LEVEL_LOG_ALWAYS, 0, FIELDS);

static const struct kind {
	stress_writer write;
	uint32_t id, level;
	uint64_t keywords;
} kinds[EVENTS] = {
	{ stress_one, 1, 1, 0x1 }, { stress_two, 2, 2, 0x2 }, { stress_three, 3, 3, 0x4 },
	{ stress_four, 4, 4, 0x1 }, { stress_five, 5, 5, 0x6 }, { stress_six, 6, 0, 0 },
};

static const uint32_t ids[] = { 6, 1, 4 };

struct wish {
	uint64_t keywords;
	uint8_t level;
	int filter;		/* 0: none; 1: only `ids`; 2: all except `ids` */
};

static struct wish wish_of(unsigned int session)
{
	return (struct wish){ session % 8, (uint8_t)(session / 8 + 1), (int)(session % 3) };
}

static bool wants(const struct wish *wish, const struct kind *kind)
{
	bool named = kind->id == ids[0] || kind->id == ids[1] || kind->id == ids[2];

	if (wish->filter && named != (wish->filter == 1))
		return false;
	if (kind->keywords && !(kind->keywords & wish->keywords))
		return false;
	return kind->level <= wish->level;
}

static struct rp_session *start(unsigned int number, const char *path)
{
	struct wish wish = wish_of(number);
	struct rp_event_filter filter = {
		.size = sizeof(filter),
		.enable = wish.filter == 1,
		.ids = ids,
		.id_count = 3,
	};
	struct rp_session_provider provider = {
		.size = sizeof(provider),
		.name = PROVIDER,
		.flags = RP_SESSION_PROVIDER_EXACT,
		.keywords = wish.keywords,
		.level = wish.level,
		.filter = wish.filter ? &filter : NULL,
	};
	struct rp_session_options options = {
		.size = sizeof(options),
		.buffer_bytes = RP_SESSION_BUFFER_MIN,
		.providers = &provider,
		.provider_count = 1,
		.output_path = path,
	};
	struct rp_session *session;

	if (!stress_check(rp_session_start(&options, &session) == 0, "starting session %u", number))
		exit(1);
	return session;
}

struct writer {
	pthread_t thread;
	struct stress_stream *streams;	/* one for each kind of event */
	uint64_t count;
};

static void *write_all(void *data)
{
	struct writer *writer = data;

	for (uint64_t i = 0; i < writer->count; i++) {
		for (unsigned int kind = 0; kind < EVENTS; kind++)
			stress_write(&writer->streams[kind]);
	}
	return NULL;
}

static void run_writers(struct stress_books *books, uint64_t count)
{
	struct writer writers[WRITERS];

	for (unsigned int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .streams = &books->streams[i * EVENTS],
					      .count = count };
		stress_spawn(&writers[i].thread, write_all, &writers[i]);
	}
	for (unsigned int i = 0; i < WRITERS; i++)
		pthread_join(writers[i].thread, NULL);
}

/* Checks one session's events and losses; adds to `arrived`, by stream and serial. */
static void check_session(unsigned int number, struct stress_books *books,
			  const struct stress_tally *tally, const struct rp_session_stats *stats,
			  uint8_t **arrived)
{
	struct wish wish = wish_of(number);
	uint64_t missing = 0, unwanted = 0;

	for (size_t i = 0; i < books->count; i++) {
		struct stress_stream *stream = &books->streams[i];
		bool wanted = wants(&wish, &kinds[i % EVENTS]);

		for (uint64_t serial = 0; serial < stream->next; serial++) {
			unwanted += !wanted && stream->seen[serial];
			missing += wanted && !stream->seen[serial];
			arrived[i][serial] += stream->seen[serial] != 0;
			stream->seen[serial] = 0;
		}
	}
	stress_agree(tally, stats);
	stress_check(unwanted == 0, "session %u: %" PRIu64 " events nobody asked for", number,
		     unwanted);
	stress_check(missing == stats->lost, "session %u: %" PRIu64 " missing, %" PRIu64 " told",
		     number, missing, stats->lost);
}

static void check_calls(const struct stress_books *books, uint8_t **arrived)
{
	for (size_t i = 0; i < books->count; i++) {
		const struct stress_stream *stream = &books->streams[i];
		unsigned int wanted = 0;

		for (unsigned int session = 0; session < SESSIONS; session++) {
			struct wish wish = wish_of(session);

			wanted += wants(&wish, &kinds[i % EVENTS]);
		}
		for (uint64_t serial = 0; serial < stream->next; serial++)
			stress_check((stream->fate[serial] == STRESS_OK) ==
				     (arrived[i][serial] == wanted),
				     "stream %zu, serial %" PRIu64 ": fate %u, in %u of %u", i,
				     serial, stream->fate[serial], arrived[i][serial], wanted);
	}
}

static void add_stats(struct rp_session_stats *sum, const struct rp_session_stats *one)
{
	sum->delivered += one->delivered;
	sum->lost += one->lost;
	sum->clamped += one->clamped;
	sum->rings += one->rings;
	for (int i = 0; i < RP_LOSS_REASON_COUNT; i++)
		sum->lost_by[i] += one->lost_by[i];
}

static void every_session_is_exact(void)
{
	uint64_t count = stress_amount(40000);
	struct rp_session *sessions[SESSIONS];
	struct rp_session_stats stats, sum = { 0 };
	char (*paths)[300] = stress_alloc(SESSIONS, sizeof(*paths));
	uint8_t *arrived[WRITERS * EVENTS];
	struct stress_books books;

	stress_begin("each_of_%u_sessions_on_the_same_events_is_exact", SESSIONS);
	stress_books_init(&books, WRITERS * EVENTS, count, NULL);
	for (size_t i = 0; i < books.count; i++) {
		books.streams[i].write = kinds[i % EVENTS].write;
		arrived[i] = stress_alloc(count, 1);
	}
	for (unsigned int i = 0; i < SESSIONS; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s-%u", stress_path("session"), i);
		sessions[i] = start(i, paths[i]);
	}
	run_writers(&books, count);
	for (unsigned int i = 0; i < SESSIONS; i++) {
		struct stress_tally tally = { 0 };

		stress_stop(sessions[i], &stats);
		stress_read_file(paths[i], &books, &tally);
		check_session(i, &books, &tally, &stats, arrived);
		add_stats(&sum, &stats);
		unlink(paths[i]);
	}
	check_calls(&books, arrived);
	stress_stats(&books, &sum);
	for (size_t i = 0; i < books.count; i++)
		free(arrived[i]);
	stress_books_fini(&books);
	free(paths);
	stress_end();
}

int main(void)
{
	for (unsigned int i = 0; i < stress_rounds(); i++)
		every_session_is_exact();
	return stress_exit();
}
