/* SPDX-License-Identifier: MIT */
/*
 * Measures the bytes of an event in a file beyond its payload: by the size of the payload with one
 * busy thread, and by the number of threads that alternate after each event.
 *
 *	bytes FOLDER
 */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define PARTS 4u
#define PART_EVENTS 16384u
#define PART_BYTES (1u << 20)	/* at most, so that it fits in a ring */
#define PAYLOAD_BYTES 32u
#define THREADS_MAX 64u
#define ROUNDS 19200u

RP_PROVIDER(bench, "Bench-Bytes");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(bench, blob, 2, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(b));

static char path[4096], from[8192];

/* Bytes of the file per event, including header and end. */
static double stop(struct rp_session *session, uint64_t written)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	rp_session_stop(session, &stats);
	unlink(path);
	if (stats.delivered != written) {
		fprintf(stderr, "bytes: %lu of %lu events delivered\n", stats.delivered, written);
		exit(1);
	}
	return (double)stats.bytes / (double)written;
}

/* One busy thread. The overhead includes a blob's length field. */
static void by_payload(size_t bytes)
{
	struct rp_session *session = bench_start("Bench-Bytes", path, 64u << 20, 0);
	unsigned int count = bytes * PART_EVENTS > PART_BYTES ? PART_BYTES / (unsigned int)bytes :
			     PART_EVENTS;
	uint64_t written = 0;

	for (unsigned int part = 0; part < bench_rounds(PARTS); part++) {
		for (unsigned int i = 0; i < count; i++)
			bench_blob(from, bytes);
		bench_settle(session, written += count);
	}
	figure_point("one thread", (double)bytes, stop(session, written) - (double)bytes, "B");
}

struct writer {
	pthread_t thread;
	sem_t turn;
	struct writer *next;
	unsigned int rounds;
};

/* Each event comes from a different thread than the previous event. */
static void *write_multi(void *data)
{
	struct writer *writer = data;

	for (unsigned int i = 0; i < writer->rounds; i++) {
		while (sem_wait(&writer->turn) != 0)
			;
		bench_bytes32(i, 0, i, 0);
		sem_post(&writer->next->turn);
	}
	return NULL;
}

static void by_threads(unsigned int count)
{
	unsigned int rounds = bench_rounds(100) * (ROUNDS / 100) / count;
	struct rp_session *session = bench_start("Bench-Bytes", path, 64u << 20, 0);
	struct writer writers[THREADS_MAX];

	for (unsigned int i = 0; i < count; i++) {
		writers[i].next = &writers[(i + 1) % count];
		writers[i].rounds = rounds;
		sem_init(&writers[i].turn, 0, 0);
		if (pthread_create(&writers[i].thread, NULL, write_multi, &writers[i]) != 0)
			exit(1);
	}
	sem_post(&writers[0].turn);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(writers[i].thread, NULL);
	figure_point("alternating threads", count,
		     stop(session, (uint64_t)rounds * count) - PAYLOAD_BYTES, "B");
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: bytes FOLDER\n");
		return 2;
	}
	snprintf(path, sizeof(path), "%s/bytes.nettrace", argv[1]);
	for (size_t bytes = 8; bytes <= sizeof(from); bytes *= 4)
		by_payload(bytes);
	for (unsigned int count = 1; count <= THREADS_MAX; count *= 2)
		by_threads(count);
	return 0;
}
