/* SPDX-License-Identifier: MIT */
/*
 * A burst without a reader. At the first loss, records and their headers fill at least four fifths
 * of the session's memory limit, for any event sizes and number of threads, if the limit is at
 * least 64 MB and 8 MB for each processor. They may fill less of a smaller limit (least_percent()).
 * The session stays within its limit.
 *
 * usage: bursting [CPUS]. With CPUS, the machine must have that many, and a thread runs on each.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stress.h"

#define PROVIDER "Stress-Bursting"
#define HEADER_BYTES 24u		/* of a record, in addition to its payload */
#define BLOB_HEADER_BYTES 4u
#define BLOB_MAX (RP_PAYLOAD_MAX - BLOB_HEADER_BYTES)
#define WORST_SIZE 45060u
#define NEXT_WORST_SIZE 53260u
#define SMALL_BYTES 30u
#define THREADS_MAX 32u
#define SEQUENCE_MAX 4096u		/* longer payloads are written under locks */

RP_PROVIDER(stress, PROVIDER);
RP_EVENT(stress, small, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(a), RP_U64(b), RP_U64(c), RP_U32(d),
	 RP_U16(e));
RP_EVENT(stress, blob, 2, RP_LEVEL_INFORMATIONAL, 0x1, RP_BLOB(filling));

struct burst {
	const char *name;
	uint32_t from, to;	/* sizes of a payload; 0: the small event */
};

static const struct burst bursts[] = {
	{ "30_bytes", 0, 0 },
	{ "1_to_4_kb", 1024, 4000 },
	{ "above_4_kb", 4200, 16000 },
	{ "64_kb", 65000, 65000 },
	{ "all_sizes", 0, 65000 },
	{ "the_largest_size", BLOB_MAX, BLOB_MAX },
	/* Slightly more than a third of the smallest buffer, and than a fifth of the next one. */
	{ "45_kb", WORST_SIZE, WORST_SIZE },
	{ "53_kb", NEXT_WORST_SIZE, NEXT_WORST_SIZE },
};

struct writer {
	pthread_t thread;
	const struct burst *burst;
	uint64_t random, bytes;
	int cpu;		/* -1: any */
};

/* Only in a program that counts them: the concurrency ids that got a buffer since the last call. */
unsigned int burst_ids(void) __attribute__((weak));

static uint32_t over, waiting;
static uint8_t filling[65536];

static int write_one(struct writer *writer, uint64_t *ret_payload)
{
	const struct burst *burst = writer->burst;
	uint64_t size = burst->from;

	if (burst->to > burst->from)
		size += stress_random(&writer->random) % (burst->to - burst->from);
	/* Half of the events of mixed sizes are small. */
	if (burst->to == 0 || (burst->from == 0 && stress_random(&writer->random) % 2)) {
		*ret_payload = SMALL_BYTES;
		return stress_small(1, 2, 3, 4, 5);
	}
	*ret_payload = BLOB_HEADER_BYTES + size;
	return stress_blob(filling, (uint32_t)size);
}

static void *write_burst(void *data)
{
	struct writer *writer = data;
	uint64_t payload;
	cpu_set_t cpu;

	if (writer->cpu >= 0) {
		CPU_ZERO(&cpu);
		CPU_SET(writer->cpu, &cpu);
		stress_check(sched_setaffinity(0, sizeof(cpu), &cpu) == 0, "no CPU %d",
			     writer->cpu);
	}
	/* All threads write from the beginning, so each processor has a ring. */
	__atomic_fetch_sub(&waiting, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&waiting, __ATOMIC_RELAXED) != 0)
		sched_yield();
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		if (write_one(writer, &payload) != 0)
			__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
		else
			writer->bytes += (HEADER_BYTES + payload + 7) & ~7ull;
	}
	return NULL;
}

/* The peer reads nothing: the sink is full once its socket's buffer is. */
static struct rp_session *start(size_t megabytes, int sockets[2])
{
	int least = 1;

	stress_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, "sockets");
	stress_check(setsockopt(sockets[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)) == 0,
		     "setsockopt");
	return stress_start(PROVIDER, NULL, sockets[0], megabytes << 20, 0);
}

/* With more than one processor for each 8 MB, buffers are smaller: src/lib/core/rings.c. */
static bool has_large_buffers(size_t megabytes)
{
	return megabytes >= 8 * (size_t)sysconf(_SC_NPROCESSORS_CONF);
}

/*
 * The sink has a quarter of 1 MB, and few buffers remain, of which each writer leaves one partly
 * filled and large records leave the ends. Records of the worst size leave a third of a buffer of
 * 132 KB, and a fifth of a buffer of 260 KB. A writer may be preempted while it holds a buffer, so
 * each figure is 5 to 15 below what is stored without preemption.
 */
static unsigned int least_percent(const struct burst *burst, size_t megabytes)
{
	static const struct {
		size_t megabytes;
		unsigned int similar, mixed, worst;
	} least[] = {
		{ 1, 40, 25, 25 }, { 2, 60, 50, 40 }, { 4, 75, 70, 50 }, { 8, 75, 70, 50 },
		{ 16, 80, 75, 65 }, { 32, 80, 80, 75 },
	};
	const bool is_worst = burst->from == WORST_SIZE || burst->from == NEXT_WORST_SIZE ||
			      (burst->from == BLOB_MAX && megabytes == 1);

	if (is_worst && megabytes >= 16 && !has_large_buffers(megabytes))
		return 50;
	for (size_t i = 0; i < sizeof(least) / sizeof(*least); i++) {
		if (megabytes == least[i].megabytes)
			return is_worst ? least[i].worst :
			       burst->from == 0 && burst->to > 0 ? least[i].mixed :
			       least[i].similar;
	}
	return 80;
}

static void burst_fills_the_ceiling(const struct burst *burst, unsigned int threads, bool pinned,
				    size_t megabytes)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct writer writers[THREADS_MAX];
	unsigned int written = 0;
	uint64_t bytes = 0, ceiling = megabytes << 20;
	struct rp_session *session;
	int sockets[2];

	stress_begin("%u_threads_with_events_of_%s_fill_%u_percent_of_%zu_mb", threads,
		     burst->name, least_percent(burst, megabytes), megabytes);
	over = 0;
	waiting = threads;
	session = start(megabytes, sockets);
	for (unsigned int i = 0; i < threads; i++) {
		writers[i] = (struct writer){ .burst = burst, .random = i + 1,
					      .cpu = pinned ? (int)i : -1 };
		stress_spawn(&writers[i].thread, write_burst, &writers[i]);
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(writers[i].thread, NULL);
		bytes += writers[i].bytes;
		written += writers[i].bytes != 0;
	}
	stress_check(!pinned || written == threads, "%u threads wrote", written);
	if (pinned && burst_ids) {
		unsigned int ids = burst_ids();

		stress_check(ids == threads || burst->from > SEQUENCE_MAX, "%u ids wrote", ids);
	}
	/* As of the first pass that saw the loss, at the latest. */
	do
		stress_check(rp_session_get_stats(session, &stats) == 0, "no stats");
	while (stats.lost == 0);
	stress_check(bytes >= ceiling / 100 * least_percent(burst, megabytes),
		     "%" PRIu64 " bytes, %" PRIu64 "%%", bytes, bytes * 100 / ceiling);
	stress_check(stats.memory_bytes <= ceiling + ceiling / 100, "memory_bytes %" PRIu64,
		     stats.memory_bytes);
	stress_note("figure: %" PRIu64 "%% of the ceiling, memory %" PRIu64 "%%",
		    bytes * 100 / ceiling, stats.memory_bytes * 100 / ceiling);
	/* The peer closes: the remaining events are lost, without a wait. */
	close(sockets[1]);
	(void)rp_session_stop(session, &stats);
	close(sockets[0]);
	stress_end();
}

int main(int argc, char **argv)
{
	const unsigned int online = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	const unsigned int many = 2 * online < THREADS_MAX ? 2 * online : THREADS_MAX;
	const unsigned int cpus = argc > 1 ? (unsigned int)atoi(argv[1]) : 0;

	if (cpus > online || cpus > THREADS_MAX) {
		printf("# %u processors are online\n", online);
		return 1;
	}
	if (cpus != 0) {
		burst_fills_the_ceiling(&bursts[0], cpus, true, 16);
		burst_fills_the_ceiling(&bursts[2], cpus, true, 16);
		/* With that many processors, 16 MB hold less of such a mix. */
		burst_fills_the_ceiling(&bursts[4], cpus, true, 64);
	}
	for (unsigned int i = 0; cpus == 0 && i < sizeof(bursts) / sizeof(*bursts); i++) {
		for (size_t megabytes = 1; megabytes <= 64; megabytes *= 2) {
			burst_fills_the_ceiling(&bursts[i], 1, false, megabytes);
			burst_fills_the_ceiling(&bursts[i], many, false, megabytes);
		}
	}
	return stress_exit();
}
