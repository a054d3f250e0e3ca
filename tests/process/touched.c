/* SPDX-License-Identifier: MIT */
/*
 * Other code interferes with the outputs: it truncates files, lets first writes fail, or closes the
 * library's descriptors and reuses their numbers, even between the drain thread's check of a
 * descriptor and its write. The program replaces libc's write() and ftruncate() for this purpose.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

RP_PROVIDER(touched, "Test-Touched");
RP_EVENT(touched, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(filling));

static char directory[] = "/tmp/rp-touched-XXXXXX";
static char trace[64], mine[64];

/* Called once, on the drain thread, just before its next write. */
static void (*before_write)(int fd);		/* atomic */
static unsigned int writes_to_mine;		/* atomic */
static int mine_fd = -1;
static int ftruncate_error;			/* atomic */

ssize_t write(int fd, const void *bytes, size_t size)
{
	void (*hook)(int) = NULL;

	if (gettid() != getpid())
		hook = __atomic_exchange_n(&before_write, NULL, __ATOMIC_ACQ_REL);
	if (hook)
		hook(fd);
	if (hook || gettid() == getpid())
		return syscall(SYS_write, fd, bytes, size);
	if (fd == mine_fd)
		__atomic_add_fetch(&writes_to_mine, 1, __ATOMIC_ACQ_REL);
	return syscall(SYS_write, fd, bytes, size);
}

int ftruncate(int fd, off_t size)
{
	errno = __atomic_load_n(&ftruncate_error, __ATOMIC_ACQUIRE);
	return errno ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

static void arm(void (*hook)(int fd))
{
	__atomic_store_n(&before_write, hook, __ATOMIC_RELEASE);
}

static bool is_armed(void)
{
	return __atomic_load_n(&before_write, __ATOMIC_ACQUIRE) != NULL;
}

static struct rp_session *start(const char *path, int fd)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Touched", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = path, .output_fd = fd, .buffer_bytes = RP_SESSION_BUFFER_MIN,
		.flags = RP_SESSION_NO_RUNDOWN,
	};
	struct rp_session *session;

	check(rp_session_start(&options, &session) == 0);
	return session;
}

static uint64_t file_bytes(const char *path)
{
	struct stat file;

	return stat(path, &file) == 0 ? (uint64_t)file.st_size : UINT64_MAX;
}

static uint64_t write_some(void)
{
	static const char filling[1000];

	for (uint64_t i = 0; i < 500; i++)
		(void)touched_mark(i, filling, sizeof(filling));
	return 500;
}

static struct rp_session_stats stats_of(struct rp_session *session)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	check(rp_session_get_stats(session, &stats) == 0);
	return stats;
}

/* Start a session and wait until its first events are in its file. */
static struct rp_session *start_with_events(uint64_t *ret_offered)
{
	struct rp_session *session = start(trace, -1);
	uint64_t offered = write_some();

	wait_until(stats_of(session).delivered + stats_of(session).lost == offered);
	*ret_offered = offered;
	return session;
}

/* Write until the session has ended by itself. */
static uint64_t write_until_gone(void)
{
	uint64_t offered = 0;

	wait_until((offered += touched_mark_enabled() ? write_some() : 0, !touched_mark_enabled()));
	return offered;
}

/*
 * Check that the file has a header and an end, and counts all events that it does not contain as
 * lost. The events that were written while the session ended may have been offered or not.
 */
static void expect_begun_again(struct rp_session *session, uint64_t offered)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	uint64_t events, lost;

	check(rp_session_stop(session, &stats) == -ESTALE);
	check(stats.lost_by[RP_LOSS_SINK] > 0);
	check(stats.delivered + stats.lost <= offered);
	check(stats.delivered + stats.lost + 500 >= offered);
	count_trace(trace, "Test-Touched", &events, &lost);
	check(events == 0 && lost == stats.lost);
	check(unlink(trace) == 0);
}

static void file_that_was_cut_is_begun_again(void)
{
	uint64_t offered;
	struct rp_session *session = start_with_events(&offered);

	check(truncate(trace, 0) == 0);
	expect_begun_again(session, offered + write_until_gone());
}

static void cut(int fd)
{
	check(syscall(SYS_ftruncate, fd, 0L) == 0);
}

static void file_that_is_cut_right_before_a_write_is_begun_again(void)
{
	uint64_t offered;
	struct rp_session *session = start_with_events(&offered);

	arm(cut);
	expect_begun_again(session, offered + write_until_gone());
	check(!is_armed());
}

/* The events in the copy were delivered; the truncated file becomes a complete, empty trace. */
static void file_that_is_cut_right_before_the_last_write_is_begun_again(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	uint64_t offered, events, lost;
	struct rp_session *session = start_with_events(&offered);

	arm(cut);
	check(rp_session_stop(session, &stats) == -ESTALE);
	check(!is_armed());
	check(stats.delivered + stats.lost == offered);
	count_trace(trace, "Test-Touched", &events, &lost);
	check(events == 0 && lost == stats.lost);
	check(unlink(trace) == 0);
}

static struct rlimit limit;

static void set_limit(int fd)
{
	(void)fd;
	check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* Only the first `bytes` bytes of the header fit. */
static void first_write_that_fails_leaves_no_file(rlim_t bytes)
{
	struct rlimit before;
	struct rp_session *session;

	check(getrlimit(RLIMIT_FSIZE, &before) == 0);
	limit = before;
	limit.rlim_cur = bytes;
	arm(set_limit);
	session = start(trace, -1);
	(void)write_until_gone();
	check(rp_session_stop(session, NULL) == -EFBIG);
	check(access(trace, F_OK) != 0);
	check(setrlimit(RLIMIT_FSIZE, &before) == 0);
}

static void file_that_cannot_be_emptied_keeps_what_it_holds(void)
{
	int fd;

	__atomic_store_n(&ftruncate_error, EPERM, __ATOMIC_RELEASE);
	check(rp_session_stop(start(trace, -1), NULL) == -EPERM);
	check(access(trace, F_OK) != 0);
	fd = open(trace, O_WRONLY | O_CREAT, 0600);
	check(fd >= 0 && write(fd, "before", 6) == 6 && close(fd) == 0);
	check(rp_session_stop(start(trace, -1), NULL) == -EPERM);
	check(file_bytes(trace) == 6);
	__atomic_store_n(&ftruncate_error, 0, __ATOMIC_RELEASE);
	check(unlink(trace) == 0);
}

/* The bytes that the file contained before the session stay, and nothing follows them. */
static void embedders_file_is_cut_back_to_where_the_session_began(void)
{
	struct rlimit before;
	struct rp_session *session;
	int fd = open(trace, O_WRONLY | O_CREAT, 0600);

	check(fd >= 0 && write(fd, "before", 6) == 6);
	check(getrlimit(RLIMIT_FSIZE, &before) == 0);
	limit = before;
	limit.rlim_cur = 16;
	arm(set_limit);
	session = start(NULL, fd);
	(void)write_until_gone();
	check(rp_session_stop(session, NULL) == -EFBIG);
	check(setrlimit(RLIMIT_FSIZE, &before) == 0);
	check(file_bytes(trace) == 6);
	check(unlink(trace) == 0);
}

/* Write each event as a separate block. Return: the file's size. */
static uint64_t write_blocks(uint64_t limit_bytes)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	uint64_t events, lost, bytes;
	struct rlimit before;
	struct rp_session *session;
	int ret;

	check(getrlimit(RLIMIT_FSIZE, &before) == 0);
	limit = before;
	limit.rlim_cur = limit_bytes;
	check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	session = start(trace, -1);
	for (uint64_t i = 0; i < 8; i++) {
		(void)touched_mark(i, "", 0);
		(void)rp_sessions_flush(PATIENCE_S * 1000);
	}
	ret = rp_session_stop(session, &stats);
	check(setrlimit(RLIMIT_FSIZE, &before) == 0);
	check(ret == 0 || ret == -EFBIG);
	/* Events after the session's end are not offered. */
	check(ret != 0 ? stats.delivered + stats.lost <= 8 : stats.delivered == 8);
	count_trace(trace, "Test-Touched", &events, &lost);
	check(events == stats.delivered && lost == stats.lost);
	bytes = file_bytes(trace);
	check(bytes <= limit_bytes);
	check(unlink(trace) == 0);
	return bytes;
}

/* The limits go down to a file without events. */
static void file_has_an_end_wherever_it_must_stop(void)
{
	uint64_t whole = write_blocks(1 << 20);

	for (uint64_t bytes = whole; bytes > whole - 600; bytes--)
		(void)write_blocks(bytes);
}

static void replace_by_mine(int fd)
{
	mine_fd = fd;
	check(dup3(open(mine, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), fd, O_CLOEXEC) == fd);
}

/*
 * doc/architecture.md: if the host closes and reuses a descriptor's number between the check and
 * the write, that one write goes to the host's file. The next check detects the change, and the
 * library writes, truncates and closes nothing more.
 */
static void number_that_changes_hands_before_a_write_gets_that_write_alone(void)
{
	uint64_t offered, bytes;
	struct rp_session *session = start_with_events(&offered);

	arm(replace_by_mine);
	(void)write_until_gone();
	check(!is_armed());
	bytes = file_bytes(mine);
	check(bytes > 0);
	check(rp_session_stop(session, NULL) == -EBADF);
	check(__atomic_load_n(&writes_to_mine, __ATOMIC_ACQUIRE) == 0);
	check(file_bytes(mine) == bytes);
	check(fcntl(mine_fd, F_GETFD) == FD_CLOEXEC && close(mine_fd) == 0);
	check(unlink(mine) == 0 && unlink(trace) == 0);
}

int main(void)
{
	alarm(2 * PATIENCE_S);
	check(mkdtemp(directory));
	snprintf(trace, sizeof(trace), "%s/trace", directory);
	snprintf(mine, sizeof(mine), "%s/mine", directory);
	file_that_was_cut_is_begun_again();
	file_that_is_cut_right_before_a_write_is_begun_again();
	file_that_is_cut_right_before_the_last_write_is_begun_again();
	for (rlim_t bytes = 0; bytes < 150; bytes += 30)
		first_write_that_fails_leaves_no_file(bytes);
	file_that_cannot_be_emptied_keeps_what_it_holds();
	embedders_file_is_cut_back_to_where_the_session_began();
	file_has_an_end_wherever_it_must_stop();
	number_that_changes_hands_before_a_write_gets_that_write_alone();
	check(rmdir(directory) == 0);
	return 0;
}
