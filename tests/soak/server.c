/* SPDX-License-Identifier: MIT */
/*
 * A server to be traced for hours: threads that write in bursts, and, between `go` and `rest`,
 * sessions of its own of each kind, one after another, whose files lie in a directory that fills
 * up now and then. Prints its pid; answers each line on its standard input with one; ends with it.
 *
 *	go	sessions of its own from here on
 *	rest	none any more: answers when the last has ended
 *	figures	what was done so far, and the bytes that malloc has given out
 *
 * usage: server DIRECTORY RINGS
 * RINGS is where sessions that can be recovered have theirs.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/listener.h>
#include <ringpipe/ringpipe.h>

#define WRITERS 3u
#define BURST 300u
#define SESSION_NS 30000000
#define SNAPSHOTS 3u
#define BURST_NS 2000000

RP_PROVIDER(soak, "Soak-Server");
RP_EVENT(soak, small, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial));
RP_EVENT(soak, text, 2, RP_LEVEL_VERBOSE, 0x2, RP_U64(serial), RP_STRING(text));
RP_EVENT(soak, large, 3, RP_LEVEL_VERBOSE, 0x4, RP_U64(serial), RP_BLOB(bytes));
RP_COUNTER(soak, bursts, NULL, NULL);

static uint32_t is_over;
static uint64_t written, refused;	/* calls that returned 0, and others */

static const char *directory, *rings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool may_go, is_resting;
/* unwritten: sessions whose output failed and whose rings can be recovered. */
static uint64_t sessions, snapshots, disk_full, unwritten, failed, delivered, lost, heard;

/* Sessions with an output. */
static const struct kind {
	uint32_t flags;
	uint32_t block_ms;
	bool has_state_rings;
} kinds[] = {
	{ 0, 0, false },
	{ RP_SESSION_STACKS | RP_SESSION_NO_RUNDOWN, 0, false },
	{ RP_SESSION_CAUSAL, 0, false },
	{ 0, 0, true },
	{ 0, 5, false },
	{ RP_SESSION_OVERWRITE, 0, false },
};

#define KINDS (sizeof(kinds) / sizeof(*kinds))

static void pause_for(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static void *write_on(void *data)
{
	static const uint8_t bytes[20000];
	uint64_t serial = 0, ok = 0;

	(void)data;
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		ok = 0;
		for (unsigned int i = 0; i < BURST; i++, serial++) {
			ok += soak_small(serial) == 0;
			ok += soak_text(serial, "what a server has to say") == 0;
			if (i % 64 == 0)
				(void)soak_large(serial, bytes, 1 + serial % sizeof(bytes));
		}
		soak_bursts_add(1);
		__atomic_fetch_add(&written, ok, __ATOMIC_RELAXED);
		__atomic_fetch_add(&refused, 2 * BURST - ok, __ATOMIC_RELAXED);
		pause_for(BURST_NS);
	}
	return NULL;
}

static struct rp_session_provider everything(void)
{
	return (struct rp_session_provider){
		.size = sizeof(struct rp_session_provider),
		.name = "Soak-Server",
		.keywords = ~0ull,
		.level = RP_LEVEL_VERBOSE,
	};
}

/* With the lock held. */
static void add_error(int error)
{
	disk_full += error == -ENOSPC;
	failed += error != 0 && error != -ENOSPC;
}

static void add(const struct rp_session_stats *stats)
{
	pthread_mutex_lock(&lock);
	sessions++;
	delivered += stats->delivered;
	lost += stats->lost;
	add_error(stats->error);
	pthread_mutex_unlock(&lock);
}

static void add_unwritten(bool is_unwritten)
{
	pthread_mutex_lock(&lock);
	unwritten += is_unwritten;
	pthread_mutex_unlock(&lock);
}

static void take_snapshots(struct rp_session *session)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/snapshot.nettrace", directory);
	for (unsigned int i = 0; i < SNAPSHOTS; i++) {
		int ret;

		pause_for(SESSION_NS / SNAPSHOTS);
		ret = rp_session_snapshot(session, path, -1, NULL);
		pthread_mutex_lock(&lock);
		snapshots += ret == 0;
		add_error(ret);
		pthread_mutex_unlock(&lock);
	}
	remove(path);
}

static void record(const struct kind *kind)
{
	struct rp_session_provider provider = everything();
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	char path[300];
	struct rp_session_options options = {
		.size = sizeof(options),
		.flags = kind->flags,
		.buffer_bytes = kind->flags & RP_SESSION_OVERWRITE ? RP_SESSION_OVERWRITE_MIN :
				1u << 20,
		.providers = &provider,
		.provider_count = 1,
		.output_path = path,
		.recover_path = kind->has_state_rings ? rings : NULL,
		.block_ms = kind->block_ms,
	};
	struct rp_session *session;
	int ret;

	snprintf(path, sizeof(path), "%s/own.nettrace", directory);
	ret = rp_session_start(&options, &session);
	if (ret != 0) {
		stats.error = ret;	/* full already */
		pause_for(SESSION_NS);
	} else {
		if (kind->flags & RP_SESSION_OVERWRITE)
			take_snapshots(session);
		else
			pause_for(SESSION_NS);
		(void)rp_session_stop(session, &stats);
		add_unwritten(kind->has_state_rings && stats.error != 0);
	}
	add(&stats);
	remove(path);
}

static void hear(const struct rp_listener_event *event, void *data)
{
	(void)event, (void)data;
	__atomic_fetch_add(&heard, 1, __ATOMIC_RELAXED);
}

static void listen_to(bool push)
{
	struct rp_session_provider provider = everything();
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session_options options = {
		.size = sizeof(options),
		.buffer_bytes = 1u << 20,
		.providers = &provider,
		.provider_count = 1,
	};
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_listener *listener;

	if (rp_listener_start(&options, push ? hear : NULL, NULL, &listener) != 0)
		return;
	for (unsigned int i = 0; !push && i < 1000; i++)
		heard += rp_listener_next(listener, &event, 10) == 1;
	if (push)
		pause_for(SESSION_NS);
	rp_listener_drain(listener);
	(void)rp_listener_stop(listener, &stats);
	add(&stats);
}

static void *run_sessions(void *data)
{
	unsigned int kind = 0;

	(void)data;
	for (;;) {
		pthread_mutex_lock(&lock);
		while (!may_go && !is_over) {
			is_resting = true;
			pthread_cond_broadcast(&changed);
			pthread_cond_wait(&changed, &lock);
		}
		is_resting = false;
		pthread_mutex_unlock(&lock);
		if (__atomic_load_n(&is_over, __ATOMIC_RELAXED))
			return NULL;
		if (kind < KINDS)
			record(&kinds[kind]);
		else
			listen_to(kind == KINDS);
		kind = (kind + 1) % (KINDS + 2);
	}
}

static void answer(const char *line)
{
	pthread_mutex_lock(&lock);
	may_go = strcmp(line, "go\n") == 0 || (may_go && strcmp(line, "rest\n") != 0);
	pthread_cond_broadcast(&changed);
	while (!may_go && !is_resting)
		pthread_cond_wait(&changed, &lock);
	printf("allocated %zu written %" PRIu64 " refused %" PRIu64 " sessions %" PRIu64
	       " snapshots %" PRIu64 " disk_full %" PRIu64 " unwritten %" PRIu64 " failed %" PRIu64
	       " delivered %" PRIu64 " lost %" PRIu64 "\n", mallinfo2().uordblks,
	       __atomic_load_n(&written, __ATOMIC_RELAXED),
	       __atomic_load_n(&refused, __ATOMIC_RELAXED), sessions, snapshots, disk_full,
	       unwritten, failed, delivered, lost);
	fflush(stdout);
	pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
	pthread_t threads[WRITERS + 1];
	char line[64];

	if (argc != 3)
		return 2;
	directory = argv[1];
	rings = argv[2];
	for (unsigned int i = 0; i <= WRITERS; i++) {
		if (pthread_create(&threads[i], NULL, i ? write_on : run_sessions, NULL) != 0)
			return 1;
	}
	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		answer(line);
	pthread_mutex_lock(&lock);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (unsigned int i = 0; i <= WRITERS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
