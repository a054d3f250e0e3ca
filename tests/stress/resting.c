/* SPDX-License-Identifier: MIT */
/*
 * Threads fill a small session far faster than it is read, and rest. Once the drain thread has read
 * all of it, the session stores events of every size again, however its buffers were divided.
 */
#include <stdlib.h>

#include "stress.h"

#define PROVIDER "Stress-Resting"
#define LOST 100000u		/* events of each thread, in each burst */
#define AFTERWARDS 20u

RP_PROVIDER(stress, PROVIDER);
RP_EVENT(stress, small, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(number));
RP_EVENT(stress, blob, 2, RP_LEVEL_INFORMATIONAL, 0x1, RP_BLOB(filling));

struct burst {
	unsigned int threads;
	uint32_t bytes;
	size_t megabytes;
};

static const struct burst bursts[] = {
	{ 2, 8000, 1 },
	{ 4, 100, 1 },
	{ 4, 60000, 2 },
	{ 16, 16000, 4 },
};

static uint8_t filling[60000];

static void *write_burst(void *data)
{
	const struct burst *burst = data;
	const uint64_t enough = stress_amount(LOST);

	for (uint64_t lost = 0; lost < enough;)
		lost += stress_blob(filling, burst->bytes) != 0;
	return NULL;
}

/* A buffer that is taken from a concurrency id is free three passes of the drain thread later. */
static void rest(void)
{
	for (unsigned int pass = 0; pass < 3; pass++)
		stress_check(rp_sessions_flush(-1) == 0, "no flush");
}

static void events_are_stored_after(const struct burst *burst, unsigned int round)
{
	for (unsigned int i = 0; i < AFTERWARDS; i++) {
		rest();
		stress_check(stress_blob(filling, sizeof(filling)) == 0,
			     "round %u: large event %u is lost", round, i);
		stress_check(stress_blob(filling, burst->bytes) == 0, "round %u: event %u is lost",
			     round, i);
		stress_check(stress_small(i) == 0, "round %u: small event %u is lost", round, i);
	}
}

static void a_session_that_was_read_stores_again(struct burst *burst)
{
	const unsigned int rounds = 5 * stress_rounds();
	struct rp_session *session;
	pthread_t threads[16];

	stress_begin("%zu_mb_filled_by_%u_threads_with_%u_bytes_store_again_once_read",
		     burst->megabytes, burst->threads, burst->bytes);
	session = stress_start(PROVIDER, "/dev/null", -1, burst->megabytes << 20, 0);
	for (unsigned int round = 0; round < rounds; round++) {
		for (unsigned int i = 0; i < burst->threads; i++)
			stress_spawn(&threads[i], write_burst, burst);
		for (unsigned int i = 0; i < burst->threads; i++)
			pthread_join(threads[i], NULL);
		events_are_stored_after(burst, round);
	}
	(void)rp_session_stop(session, NULL);
	stress_end();
}

int main(void)
{
	for (unsigned int i = 0; i < sizeof(bursts) / sizeof(*bursts); i++) {
		struct burst burst = bursts[i];

		a_session_that_was_read_stores_again(&burst);
	}
	return stress_exit();
}
