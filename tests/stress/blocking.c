/* SPDX-License-Identifier: MIT */
/*
 * Writers that wait for space: each serial is delivered or counted as lost, in order, whether the
 * output is fast, slow, or stalled.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stress.h"

#define HOUR_MS 3600000u
#define PIECE_BYTES (64u << 10)

RP_PROVIDER(waited, "Stress-Waiting");
RP_EVENT(waited, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(stream), RP_U64(serial),
	 RP_BLOB(filling));

static struct rp_session *start(const char *path, int fd, uint32_t block_ms)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Stress-Waiting", .level = 5,
		.keywords = UINT64_MAX,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = path, .output_fd = fd, .buffer_bytes = 1u << 20,
		.block_ms = block_ms, .format = nettrace_version(),
	};
	struct rp_session *session;

	if (!stress_check(rp_session_start(&options, &session) == 0, "no session"))
		exit(stress_exit());
	return session;
}

struct writer {
	pthread_t thread;
	struct stress_stream *stream;
	uint64_t count;
	bool refuses;			/* to wait */
};

static void *write_all(void *data)
{
	const struct writer *writer = data;

	if (writer->refuses)
		rp_thread_set_blocking(0);
	for (uint64_t i = 0; i < writer->count; i++)
		stress_write(writer->stream);
	return NULL;
}

enum { ALL_WAIT, EVERY_OTHER_WAITS };

static void run_writers(struct stress_books *books, uint64_t count, int kind)
{
	struct writer *writers = stress_alloc(books->count, sizeof(*writers));

	for (size_t i = 0; i < books->count; i++) {
		writers[i].stream = &books->streams[i];
		writers[i].count = count;
		writers[i].refuses = kind == EVERY_OTHER_WAITS && i % 2;
		stress_spawn(&writers[i].thread, write_all, &writers[i]);
	}
	for (size_t i = 0; i < books->count; i++)
		pthread_join(writers[i].thread, NULL);
	free(writers);
}

/* Here losses have only one reason. */
static void settle(struct stress_books *books, const struct stress_tally *tally,
		   const struct rp_session_stats *stats)
{
	stress_settle(books, tally, stats);
	stress_check(stats->lost == stats->lost_by[RP_LOSS_BLOCKED],
		     "%llu lost, %llu of them given up", (unsigned long long)stats->lost,
		     (unsigned long long)stats->lost_by[RP_LOSS_BLOCKED]);
	stress_stats(books, stats);
}

static void file_gets_all(size_t threads)
{
	uint64_t count = stress_amount(200000) / threads;
	const char *path = stress_path("waiting.nettrace");
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	struct stress_books books;
	struct rp_session *session;

	stress_begin("nothing_is_lost_with_%zu_threads_that_wait_in_one_mb", threads);
	stress_books_init(&books, threads, count, waited_mark);
	session = start(path, -1, HOUR_MS);
	run_writers(&books, count, ALL_WAIT);
	stress_stop(session, &stats);
	stress_read_file(path, &books, &tally);
	settle(&books, &tally, &stats);
	stress_check(stats.lost == 0, "%llu lost", (unsigned long long)stats.lost);
	unlink(path);
	stress_books_fini(&books);
	stress_end();
}

/* Forwards a stream, a piece each millisecond. */
struct relay {
	pthread_t thread;
	int from, to;
};

static void *relay_with_delay(void *data)
{
	const struct relay *relay = data;
	static char piece[PIECE_BYTES];
	ssize_t got;

	while ((got = read(relay->from, piece, sizeof(piece))) > 0) {
		if (!stress_check(send(relay->to, piece, (size_t)got, MSG_NOSIGNAL) == got,
				  "the far side is gone: %s", strerror(errno)))
			break;
		poll(NULL, 0, 1);
	}
	close(relay->from);
	close(relay->to);
	return NULL;
}

static void slow_output_is_exact(size_t threads, uint32_t block_ms, int kind)
{
	uint64_t count = stress_amount(100000) / threads;
	struct stress_far_side far_side;
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	struct stress_books books;
	struct rp_session *session;
	struct relay relay;
	int near[2], far[2];

	stress_begin("serials_add_up_with_%zu_threads_and_a_slow_peer_and_%u_ms_to_wait%s", threads,
		     block_ms, kind == ALL_WAIT ? "" : "_for_every_other");
	stress_books_init(&books, threads, count, waited_mark);
	stress_socketpair(near);
	stress_socketpair(far);
	relay.from = near[1];
	relay.to = far[0];
	stress_spawn(&relay.thread, relay_with_delay, &relay);
	stress_far_side_start(&far_side, far[1], &books, &tally);
	session = start(NULL, near[0], block_ms);
	run_writers(&books, count, kind);
	stress_stop(session, &stats);
	pthread_join(relay.thread, NULL);
	stress_far_side_join(&far_side);
	settle(&books, &tally, &stats);
	stress_check(stats.lost == 0 || block_ms != HOUR_MS || kind != ALL_WAIT, "%llu lost",
		     (unsigned long long)stats.lost);
	stress_books_fini(&books);
	stress_end();
}

/* The peer reads nothing until the writers have finished; their waits time out. */
static void still_output_is_exact(size_t threads)
{
	uint64_t count = stress_amount(200000) / threads;
	struct stress_far_side far_side;
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	struct stress_books books;
	struct rp_session *session;
	int fds[2];

	stress_begin("serials_add_up_with_%zu_threads_and_a_peer_that_does_not_read", threads);
	stress_books_init(&books, threads, count, waited_mark);
	stress_socketpair(fds);
	session = start(NULL, fds[0], 20);
	run_writers(&books, count, ALL_WAIT);
	stress_far_side_start(&far_side, fds[1], &books, &tally);
	stress_stop(session, &stats);
	stress_far_side_join(&far_side);
	settle(&books, &tally, &stats);
	/* Rings, sink and socket hold four megabytes of it. */
	stress_check(stats.lost > 0 || count * threads < 100000, "nobody waited in vain");
	stress_note("figure: %llu delivered + %llu given up after a wait, by serials",
		    (unsigned long long)stats.delivered, (unsigned long long)stats.lost);
	stress_books_fini(&books);
	stress_end();
}

int main(void)
{
	for (unsigned int round = 0; round < stress_rounds(); round++) {
		file_gets_all(1);
		file_gets_all(8);
		slow_output_is_exact(4, HOUR_MS, ALL_WAIT);
		slow_output_is_exact(4, 1, ALL_WAIT);
		slow_output_is_exact(4, HOUR_MS, EVERY_OTHER_WAITS);
		still_output_is_exact(8);
	}
	return stress_exit();
}
