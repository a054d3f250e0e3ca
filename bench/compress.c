/* SPDX-License-Identifier: MIT */
/*
 * Writes two traces for bench/compress.py: EVENTS orders without and with 8 random bytes in each.
 *
 *	compress PLAIN RANDOM
 */
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "random_bits.h"
#include "session.h"

#define PARTS 100u
#define PART_EVENTS 20000u
#define SESSION_BYTES (32u << 20)

#define ORDER RP_U64(id), RP_U32(items), RP_F64(total), RP_STRING(customer)

RP_PROVIDER(bench, "Bench-Compress");
RP_EVENT(bench, order, 1, RP_LEVEL_INFORMATIONAL, 0, ORDER);
RP_EVENT(bench, random_order, 2, RP_LEVEL_INFORMATIONAL, 0, ORDER, RP_U64(random));

static void write_order(uint64_t id, int with_random)
{
	static const char *const customers[] = { "Anna", "Bob", "Carla", "Dmitri", "Eve" };
	uint32_t items = (uint32_t)(id * 7 % 10 + 1);
	const char *customer = customers[id % 5];

	if (with_random)
		bench_random_order(id, items, items * 12.5, customer, random_bits());
	else
		bench_order(id, items, items * 12.5, customer);
}

static void write_trace(const char *path, int with_random)
{
	struct rp_session *session = bench_start("Bench-Compress", path, SESSION_BYTES, 0);
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	uint64_t written = 0;

	for (unsigned int part = 0; part < bench_rounds(PARTS); part++) {
		for (unsigned int i = 0; i < PART_EVENTS; i++)
			write_order(written++, with_random);
		bench_settle(session, written);
	}
	rp_session_stop(session, &stats);
	if (stats.delivered != written) {
		fprintf(stderr, "compress: %lu of %lu events delivered\n", stats.delivered,
			written);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: compress PLAIN RANDOM\n");
		return 2;
	}
	write_trace(argv[1], 0);
	write_trace(argv[2], 1);
	return 0;
}
