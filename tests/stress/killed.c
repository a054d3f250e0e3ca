/* SPDX-License-Identifier: MIT */
/*
 * Kills a process at a random moment: its eight threads write small and large payloads, and its
 * session starts, runs or stops. The writers' records are in memory that outlives the process: a
 * thread confirms a serial when its call has returned 0, and repeats a serial that was lost. So the
 * recovered events of a thread are the serials 0 to n - 1, each once, complete, in order, and
 *
 *	confirmed <= n <= confirmed + 1
 *
 * where the additional event is the one whose call had not returned. The losses that the trace
 * states are at most those that the threads counted, and one more for each call that had not
 * returned. They are at least those that the threads had counted when a flush began that has
 * returned, because the losses that no ring counts survive only up to the last pass.
 *
 * usage: stress-killed [KILLS]. The default is 25 kills, or 100 in the long form.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

#define PROVIDER "Stress-Killed"
#define THREADS 8u
#define LARGE_BYTES 60000u
#define RUN_US_MAX 30000u	/* maximum run time before the kill */
#define FLUSH_US 3000u		/* between flushes, so that rings are full in most of the time */
#define PATIENCE_S 60.0

RP_PROVIDER(stress, PROVIDER);
RP_EVENT(stress, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U32(thread), RP_U64(serial),
	 RP_BLOB(filling));

struct progress {
	uint64_t confirmed[THREADS];
	uint64_t lost[THREADS];	/* calls that returned a loss */
	uint64_t flushed_lost;	/* the sum of these before a flush that has returned */
	uint32_t begun;		/* the session is about to start */
	uint32_t stop;
};

static struct progress *progress;
static uint8_t pattern[LARGE_BYTES + 256];

/* Computed from thread and serial; one in 64 is large. */
static size_t size_of(uint32_t thread, uint64_t serial)
{
	return (serial + thread) % 64 == 0 ? LARGE_BYTES - thread : (serial * 7 + thread) % 48;
}

static const uint8_t *bytes_of(uint32_t thread, uint64_t serial)
{
	return pattern + (serial * 31 + thread) % 256;
}

static void *write_for_ever(void *data)
{
	uint32_t thread = (uint32_t)(uintptr_t)data;
	uint64_t *confirmed = &progress->confirmed[thread], *lost = &progress->lost[thread];

	while (!__atomic_load_n(&progress->stop, __ATOMIC_ACQUIRE)) {
		uint64_t serial = *confirmed;

		if (stress_mark(thread, serial, bytes_of(thread, serial),
				size_of(thread, serial)) == 0)
			__atomic_store_n(confirmed, serial + 1, __ATOMIC_RELEASE);
		else
			__atomic_store_n(lost, *lost + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static struct rp_session *start(const char *output, const char *keep)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = PROVIDER, .keywords = ~0ull, .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .name = "killed", .buffer_bytes = 2u << 20,
		.providers = &provider, .provider_count = 1,
		.output_path = output, .recover_path = keep, .format = nettrace_version(),
	};
	struct rp_session *session;

	if (rp_session_start(&options, &session) != 0)
		_exit(3);
	return session;
}

static void wait_us(uint64_t us)
{
	struct timespec time = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };

	while (nanosleep(&time, &time) != 0 && errno == EINTR)
		;
}

static uint64_t lost_so_far(void)
{
	uint64_t lost = 0;

	for (unsigned int i = 0; i < THREADS; i++)
		lost += __atomic_load_n(&progress->lost[i], __ATOMIC_ACQUIRE);
	return lost;
}

/* Runs in the process to kill. With `stops`, its session ends while the killer waits a little. */
static void be_killed(const char *output, const char *keep, unsigned int thread_count, bool stops)
{
	pthread_t threads[THREADS];
	struct rp_session *session;

	__atomic_store_n(&progress->begun, 1, __ATOMIC_RELEASE);
	session = start(output, keep);
	for (uintptr_t i = 0; i < thread_count; i++)
		stress_spawn(&threads[i], write_for_ever, (void *)i);
	if (stops) {
		while (!__atomic_load_n(&progress->confirmed[0], __ATOMIC_ACQUIRE))
			sched_yield();
		/* Writers continue: their events after the session's end do not count. */
		__atomic_store_n(&progress->stop, 1, __ATOMIC_RELEASE);
		for (unsigned int i = 0; i < thread_count; i++)
			pthread_join(threads[i], NULL);
		rp_session_stop(session, NULL);
	}
	for (;;) {
		const uint64_t lost = lost_so_far();

		wait_us(FLUSH_US);
		if (!stops && rp_sessions_flush(-1) == 0)
			__atomic_store_n(&progress->flushed_lost, lost, __ATOMIC_RELEASE);
	}
}

/* Runs the command. Return: its exit status. */
static int run_recover(const char *const *arguments)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int nowhere = open("/dev/null", O_WRONLY);

		dup2(nowhere, 1);
		execv(getenv("RINGPIPE"), (char *const *)arguments);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

struct outcome {
	unsigned int thread_count;
	uint64_t recovered[THREADS];
	bool found;
};

static void check_event(const struct rp_reader_event *event, struct outcome *outcome)
{
	uint32_t thread = UINT32_MAX;
	uint64_t serial = 0;
	uint16_t length = 0;
	const uint8_t *at = event->payload;

	if (event->payload_bytes >= 14) {
		memcpy(&thread, at, 4);
		memcpy(&serial, at + 4, 8);
		memcpy(&length, at + 12, 2);
	}
	if (!stress_check(thread < THREADS, "an event of %zu bytes", event->payload_bytes))
		return;
	stress_check(serial == outcome->recovered[thread],
		     "thread %u: serial %" PRIu64 " in place of %" PRIu64, thread, serial,
		     outcome->recovered[thread]);
	stress_check(length == size_of(thread, serial) && event->payload_bytes == 14u + length &&
		     memcmp(at + 14, bytes_of(thread, serial), length) == 0,
		     "thread %u, serial %" PRIu64 ": torn", thread, serial);
	outcome->recovered[thread] = serial + 1;
}

/* Checks serials, event numbers and losses by the reader that shares no code with recovery. */
static void read_strictly(const char *path, unsigned int flags, const struct outcome *outcome)
{
	static const struct strict_serials serials = { PROVIDER, "mark", "thread", "serial" };
	struct strict_result result;
	const uint64_t lost = lost_so_far();
	const uint64_t least = flags & STRICT_RECOVERED ? progress->flushed_lost : lost;

	if (!stress_read_strictly(path, flags, &serials, &result))
		return;
	stress_check(strict_missing(&result) == 0, "serials are missing");
	for (uint32_t i = 0; i < result.writer_count; i++)
		stress_check(result.writers[i].first == 0 && result.writers[i].id < THREADS &&
			     result.writers[i].count == outcome->recovered[result.writers[i].id],
			     "thread %" PRIu64 ": %" PRIu64 " by the strict reader",
			     result.writers[i].id, result.writers[i].count);
	/* Each thread's last call may have counted a loss without returning. */
	stress_check(result.lost_in_points >= least &&
		     result.lost_in_points <= lost + outcome->thread_count,
		     "%u threads: %" PRIu64 " reported as lost, %" PRIu64 " were, %" PRIu64
		     " of them flushed", outcome->thread_count, result.lost_in_points, lost,
		     progress->flushed_lost);
}

static void read_trace(const char *path, unsigned int flags, struct outcome *outcome)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader *reader;
	int ret = rp_reader_open(path, &reader);

	if (!stress_check(ret == 0, "opening: %s", strerror(-ret)))
		return;
	outcome->found = true;
	while ((ret = stress_next(reader, &event)) == 1) {
		if (!strcmp(event.type->provider, PROVIDER))
			check_event(&event, outcome);
	}
	stress_check(ret == 0, "reading: %s", rp_reader_error(reader));
	rp_reader_get_stats(reader, &stats);
	stress_check(stats.unordered == 0, "%" PRIu64 " events out of order", stats.unordered);
	rp_reader_close(reader);
	read_strictly(path, flags, outcome);
}

/* Recovers the only session's directory, or takes the session's own complete output. */
static void recover(const char *keep, const char *output, struct outcome *outcome)
{
	char command[512], directory[300] = "", trace[400];
	const char *arguments[] = { "ringpipe", "recover", directory, "-o", trace, NULL };
	FILE *list;
	int status;

	snprintf(trace, sizeof(trace), "%s.recovered", output);
	unlink(trace);
	snprintf(command, sizeof(command), "ls -d %s/*/ 2>/dev/null", keep);
	list = popen(command, "r");
	if (!stress_check(list, "ls"))
		return;
	if (fgets(directory, sizeof(directory), list))
		directory[strcspn(directory, "\n") - 1] = '\0';
	pclose(list);
	if (!directory[0]) {
		/* The session had not begun, or had ended with a complete output. */
		if (progress->confirmed[0])
			read_trace(output, 0, outcome);
		return;
	}
	status = run_recover(arguments);
	if (status == 0)
		read_trace(trace, STRICT_RECOVERED, outcome);
	else if (progress->confirmed[0] && stress_check(status == 1, "recover: status %d", status))
		read_trace(output, 0, outcome);
}

static void settle(const struct outcome *outcome, uint64_t *events)
{
	for (unsigned int i = 0; i < THREADS; i++) {
		uint64_t confirmed = progress->confirmed[i], recovered = outcome->recovered[i];

		stress_check(recovered >= confirmed && recovered <= confirmed + 1,
			     "thread %u: %" PRIu64 " recovered, %" PRIu64 " confirmed", i,
			     recovered, confirmed);
		*events += recovered;
	}
}

/* Return: whether there was a trace. */
static bool kill_once(uint64_t *random, unsigned int number, uint64_t *events)
{
	const char *arguments[] = { "ringpipe", "recover", "--prune", NULL, NULL };
	char output[300], keep[300];
	struct outcome outcome = { .thread_count = number % 5 == 2 ? 1 : THREADS };
	double deadline = stress_seconds() + PATIENCE_S;
	bool stops = number % 4 == 3;
	pid_t pid;

	snprintf(output, sizeof(output), "%s", stress_path("killed.nettrace"));
	snprintf(keep, sizeof(keep), "%s", stress_path("keep"));
	unlink(output);
	memset(progress, 0, sizeof(*progress));
	pid = fork();
	if (pid == 0)
		be_killed(output, keep, outcome.thread_count, stops);
	while (!__atomic_load_n(&progress->begun, __ATOMIC_ACQUIRE) && stress_seconds() < deadline)
		sched_yield();
	/* In one of four kills, wait until there are events, on any machine. */
	while (number % 4 == 1 && !__atomic_load_n(&progress->confirmed[0], __ATOMIC_ACQUIRE) &&
	       stress_seconds() < deadline)
		sched_yield();
	/* Every other kill is in the first two milliseconds, while the session starts. */
	wait_us(stress_random(random) % (number % 2 ? RUN_US_MAX : 2000));
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	recover(keep, output, &outcome);
	settle(&outcome, events);
	arguments[3] = keep;
	stress_check(run_recover(arguments) == 0, "recover --prune");
	stress_check(rmdir(keep) == 0 || errno == ENOENT, "the directory is left: %s",
		     strerror(errno));
	return outcome.found;
}

int main(int argc, char **argv)
{
	unsigned int kills = stress_rounds() > 1 ? 100 : 25, with_trace = 0;
	uint64_t random = 0x6b696c6c, events = 0;

	if (argc > 1)
		kills = (unsigned int)strtoul(argv[1], NULL, 10);
	if (!getenv("RINGPIPE")) {
		fprintf(stderr, "RINGPIPE names the command\n");
		return 1;
	}
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (progress == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7 + (i >> 8));
	stress_begin("what a killed process committed is recovered, once and whole");
	for (unsigned int i = 0; i < kills; i++)
		with_trace += kill_once(&random, i, &events);
	stress_check(with_trace > 0, "no kill left a trace");
	stress_note("figure: %u kills survived, %u left a trace, %" PRIu64 " events recovered",
		    kills, with_trace, events);
	stress_end();
	return stress_exit();
}
