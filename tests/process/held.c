/* SPDX-License-Identifier: MIT */
/*
 * A thread is stopped in the middle of a large write until its session has ended, and then
 * continues. The call must return, and no other session may contain the late data.
 *
 * The payload ends in a page that is not readable yet; the handler of that fault stops the thread.
 */
#include "check.h"
#include "../strict/strict.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define PROVIDER "Test-Held"
#define PAGE 4096u
#define BYTES (15 * PAGE)

RP_PROVIDER(held, PROVIDER);
RP_EVENT(held, bulk, 1, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(bytes));
RP_EVENT(held, mark, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

static char directory[] = "/tmp/rp-held-XXXXXX";
static uint8_t *payload;
static bool is_held, goes_on;

static void hold_up(int number, siginfo_t *info, void *context)
{
	static const char other[] = "the late writer touched memory that was gone\n";

	(void)number, (void)context;
	if ((uintptr_t)info->si_addr - (uintptr_t)payload >= BYTES) {
		(void)!write(STDERR_FILENO, other, sizeof(other) - 1);
		_exit(1);
	}
	__atomic_store_n(&is_held, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&goes_on, __ATOMIC_ACQUIRE))
		poll(NULL, 0, 1);
	mprotect(payload, BYTES, PROT_READ);
}

static void *write_bulk(void *data)
{
	int ret = held_bulk(payload, BYTES);

	(void)data;
	/* -ENOBUFS: the library detected that the write came too late. */
	check(ret == 0 || ret == -ENOBUFS);
	return NULL;
}

static void write_marks(uint64_t count)
{
	for (uint64_t serial = 0; serial < count; serial++)
		check(held_mark(serial) == 0);
}

/* Check that all marks are in the trace, and that at most `lost` events were lost. */
static void read_marks(const char *path, uint64_t count, uint64_t lost)
{
	static const struct strict_serials serials = { PROVIDER, "mark", NULL, "serial" };
	struct strict_result result;

	if (!strict_read(path, 0, &serials, NULL, NULL, &result))
		fprintf(stderr, "%s\n", result.fault);
	check(!result.fault[0]);
	check(result.writer_count == 1 && result.writers[0].count == count);
	check(result.writers[0].last == count - 1);
	check(result.lost_in_points == lost);
}

static void stop(struct rp_session *session, struct rp_session_stats *ret_stats)
{
	*ret_stats = (struct rp_session_stats){ .size = sizeof(*ret_stats) };
	check(rp_session_stop(session, ret_stats) == 0);
}

/*
 * Rings of ended sessions leave empty memory at their addresses for a while. It is unmapped if a
 * mapping fails. Then a write to a ring that was freed too early ends in hold_up().
 */
static void unmap_free_ranges(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	struct rp_session_provider wanted = { .size = sizeof(wanted), .name = PROVIDER };
	const struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = "/dev/null", .buffer_bytes = 1u << 30,
	};
	FILE *statm = fopen("/proc/self/statm", "re");
	struct rp_session *session;
	struct rlimit usual, now;
	unsigned long pages;

	check(statm && fscanf(statm, "%lu", &pages) == 1 && fclose(statm) == 0);
	check(getrlimit(RLIMIT_AS, &usual) == 0);
	now = usual;
	now.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (16u << 20);
	check(setrlimit(RLIMIT_AS, &now) == 0);
	check(rp_session_start(&options, &session) == -ENOMEM);
	check(setrlimit(RLIMIT_AS, &usual) == 0);
#endif
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = hold_up, .sa_flags = SA_SIGINFO };
	char first[64], second[64];
	struct rp_session_stats stats;
	struct rp_session *session;
	pthread_t writer;

	check(mkdtemp(directory));
	snprintf(first, sizeof(first), "%s/first", directory);
	snprintf(second, sizeof(second), "%s/second", directory);
	payload = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(payload != MAP_FAILED);
	check(mprotect(payload, BYTES - PAGE, PROT_READ) == 0);
	check(sigaction(SIGSEGV, &action, NULL) == 0);
	session = session_to(first, PROVIDER, 4u << 20);
	check(pthread_create(&writer, NULL, write_bulk, NULL) == 0);
	wait_until(__atomic_load_n(&is_held, __ATOMIC_ACQUIRE));
	write_marks(100);
	stop(session, &stats);
	check(stats.lost <= 1 && stats.lost == stats.lost_by[RP_LOSS_DAMAGED]);
	read_marks(first, 100, stats.lost);

	unmap_free_ranges();
	__atomic_store_n(&goes_on, true, __ATOMIC_RELEASE);
	check(pthread_join(writer, NULL) == 0);
	session = session_to(second, PROVIDER, 4u << 20);
	write_marks(1000);
	check(held_bulk(payload, BYTES) == 0);
	stop(session, &stats);
	check(stats.lost == 0 && stats.delivered == 1001);
	read_marks(second, 1000, 0);
	check(unlink(first) == 0 && unlink(second) == 0 && rmdir(directory) == 0);
	return 0;
}
