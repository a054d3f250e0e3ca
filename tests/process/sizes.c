/* SPDX-License-Identifier: MIT */
/*
 * Two sessions get the same events and write them in version 4 and in version 6. Without ids, and
 * with ids that the process itself makes, version 6 takes at most 2 % more. With ids of a
 * traceparent it also has the span id of each request, and takes at most 2 % and that span id more.
 * The requests come one after another, which suits version 4 best: each id is written once.
 */
#include "check.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>

#define THREADS_MAX 4u
#define REQUESTS 20000u
#define SPAN_BYTES 9u		/* the label of a span id */

RP_PROVIDER(sizes, "Test-Sizes");
RP_EVENT(sizes, request_start, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_STRING(method),
	 RP_STRING(path));
RP_EVENT(sizes, query, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_STRING(statement),
	 RP_U32(rows), RP_U64(duration_ns));
RP_EVENT(sizes, commit, 3, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_U64(duration_ns));
RP_EVENT(sizes, order_placed, 4, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_U64(order_id),
	 RP_STRING(customer), RP_F64(total));
RP_EVENT(sizes, request_stop, 5, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_U16(status),
	 RP_U64(bytes), RP_U64(duration_ns));

enum load { WITHOUT_IDS, OWN_IDS, TRACEPARENT, LOADS };

static const char *const names[LOADS] = {
	"without ids", "with ids of the process", "with a traceparent",
};
static uint64_t next;		/* request, of all threads */
static char directory[] = "/tmp/rp-sizes-XXXXXX";

/* The events of a request to the shop. stop() checks that none was lost without a reason. */
static void write_request(uint64_t serial)
{
	(void)sizes_request_start(serial, "POST", "/orders");
	(void)sizes_query(serial, "select price from goods where id = ?", 1, 20000);
	(void)sizes_commit(serial, 70000);
	(void)sizes_order_placed(serial, serial * 3, "customer", 12.5);
	(void)sizes_request_stop(serial, 201, 120, 350000);
}

static void begin_trace(uint64_t serial, struct rp_activity *ret_outer)
{
	struct rp_activity activity;
	char text[64];
	uint8_t flags;

	snprintf(text, sizeof(text), "00-%016llx%016llx-%016llx-01",
		 (unsigned long long)(serial * 0x9e3779b97f4a7c15ull | 1),
		 (unsigned long long)(serial * 0xbf58476d1ce4e5b9ull | 1),
		 (unsigned long long)(serial | 1ull << 60));
	check(rp_traceparent_parse(text, strlen(text), &activity, &flags) == 0);
	rp_activity_get(ret_outer);
	rp_activity_set(&activity);
}

static void *write_requests(void *data)
{
	const enum load load = *(enum load *)data;
	struct rp_activity outer;
	uint64_t serial;

	while ((serial = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < REQUESTS) {
		if (load == OWN_IDS)
			rp_activity_begin(&outer);
		else if (load == TRACEPARENT)
			begin_trace(serial, &outer);
		write_request(serial);
		if (load == OWN_IDS)
			rp_activity_end(&outer);
		else if (load == TRACEPARENT)
			rp_activity_set(&outer);
	}
	return NULL;
}

static struct rp_session *start(const char *path, uint32_t format)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Sizes", .keywords = UINT64_MAX, .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = path, .buffer_bytes = 64u << 20, .format = format,
		.block_ms = PATIENCE_S * 1000,
	};
	struct rp_session *session;

	check(rp_session_start(&options, &session) == 0);
	return session;
}

static uint64_t stop(struct rp_session *session, const char *path)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct stat stat;

	check(rp_session_stop(session, &stats) == 0);
	check(stats.delivered + stats.lost == REQUESTS * 5);
	/* On a busy machine, writers may be preempted while they hold all fallback rings. */
	check(stats.lost == stats.lost_by[RP_LOSS_BUSY] +
	      (stats.lost_by[RP_LOSS_BUSY] ? stats.lost_by[RP_LOSS_FULL_FALLBACK] : 0));
	check(stats.lost < REQUESTS / 100);
	check(lstat(path, &stat) == 0);
	return (uint64_t)stat.st_size;
}

static void run(enum load load, unsigned int threads, uint64_t ret_bytes[2])
{
	struct rp_session *sessions[2];
	pthread_t ids[THREADS_MAX];
	char paths[2][64];

	__atomic_store_n(&next, 0, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < 2; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s/v%u", directory, 4 + 2 * i);
		sessions[i] = start(paths[i], 4 + 2 * i);
	}
	for (unsigned int i = 0; i < threads; i++)
		check(pthread_create(&ids[i], NULL, write_requests, &load) == 0);
	for (unsigned int i = 0; i < threads; i++)
		check(pthread_join(ids[i], NULL) == 0);
	for (int i = 0; i < 2; i++) {
		ret_bytes[i] = stop(sessions[i], paths[i]);
		check(unlink(paths[i]) == 0);
	}
	printf("# figure: %u threads, %s: %.1f bytes a request in version 4, %.1f in version 6, "
	       "ratio %.3f\n", threads, names[load], (double)ret_bytes[0] / REQUESTS,
	       (double)ret_bytes[1] / REQUESTS, (double)ret_bytes[1] / (double)ret_bytes[0]);
}

int main(void)
{
	check(mkdtemp(directory));
	for (enum load load = 0; load < LOADS; load++) {
		uint64_t bytes[2], most;

		run(load, 1, bytes);
		most = bytes[0] + bytes[0] / 50;
		if (load == TRACEPARENT)
			most += SPAN_BYTES * REQUESTS;
		check(bytes[1] <= most);
		/* Chance decides how often threads alternate, and so the sizes. */
		run(load, THREADS_MAX, bytes);
	}
	check(rmdir(directory) == 0);
	return 0;
}
