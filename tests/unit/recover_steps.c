/* SPDX-License-Identifier: MIT */
/*
 * Stops a process at every instruction of a session's life: start, writes of all sizes, the drain
 * thread's work, stop. At each instruction the files are what SIGKILL would leave, and a recovery
 * must yield the confirmed events, or one event more.
 *
 * The threads are single-stepped one after the other. After each step the test compares everything
 * that recovery reads. It recovers after a change, and sometimes without a change. A step aborts
 * the restartable section in which the thread is, so writers use the fallback; ring_aborts.c tests
 * the section.
 *
 * While the writer fills a buffer and continues with the next one, the test holds the drain thread
 * after its sequence point and before its search for full buffers. The drain thread then merges the
 * events of the full buffer in the pass in which that buffer becomes free.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/reader.h>
#include <ringpipe/ringpipe.h>

#include "core/buffers.h"
#include "recover/recovery.h"
#include "ring/ring.h"

#define PROVIDER "Test-Steps"
#define EVENTS 12u
#define LARGE_BYTES 5000u	/* more than a section copies */
#define LARGE 3u		/* serial of such an event */
#define FULL_BYTES 65000u	/* a buffer has space for one */
#define FULL_FIRST 5u		/* serial of the first such event */
#define FULL_LAST 6u
#define THREADS_MAX 8u
#define RINGS_MAX 64u
#define CHECK_ANYWAY 2048u	/* steps */
#define BLOCKED_SPINS 2000	/* without a stop: in a system call */

RP_PROVIDER(test, PROVIDER);
RP_EVENT(test, step, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_BLOB(filling));

struct progress {
	uint64_t confirmed;
	uint32_t done;
	uint32_t hold;		/* the process asks for the drain thread to be held */
	uint32_t held;		/* it is */
};

static struct progress *progress;
static uint8_t filling[FULL_BYTES];
static char folder[] = "/dev/shm/rp-steps-XXXXXX", keep[64], output[64];
static uint64_t steps, checks, complaints, recycled;

static size_t size_of(uint64_t serial)
{
	if (serial >= FULL_FIRST && serial <= FULL_LAST)
		return FULL_BYTES;
	return serial == LARGE ? LARGE_BYTES : (serial * 13) % 40;
}

static bool check(bool holds, const char *what, uint64_t a, uint64_t b)
{
	if (!holds && complaints++ < 20)
		printf("# step %" PRIu64 ": %s (%" PRIu64 ", %" PRIu64 ")\n", steps, what, a, b);
	return holds;
}

/* The observed process. */
static void live(void)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = PROVIDER, .keywords = ~0ull, .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .name = "steps", .buffer_bytes = RP_SESSION_BUFFER_MIN,
		.providers = &provider, .provider_count = 1,
		.output_path = output, .recover_path = keep,
	};
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(77);
	raise(SIGSTOP);
	if (rp_session_start(&options, &session) != 0)
		_exit(1);
	for (uint64_t i = 0; i < EVENTS; i++) {
		progress->hold = i >= FULL_FIRST && i <= FULL_LAST;
		while (progress->hold && !((volatile struct progress *)progress)->held)
			poll(NULL, 0, 1);
		if (test_step(i, filling, size_of(i)) == 0)
			progress->confirmed = i + 1;
		/* The earlier events are delivered before the test writes the rest. */
		while ((i == FULL_FIRST - 1 || i == FULL_LAST + 1) &&
		       rp_session_get_stats(session, &stats) == 0 && stats.delivered < i)
			poll(NULL, 0, 1);
	}
	if (rp_session_stop(session, NULL) != 0)
		_exit(2);
	progress->done = 1;
	_exit(0);
}

/* Return: the events in the trace, or UINT64_MAX. */
static uint64_t count_events(int fd)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	uint64_t count = 0;
	int ret;

	if (lseek(fd, 0, SEEK_SET) != 0 || rp_reader_open_fd(fd, &reader) != 0)
		return UINT64_MAX;
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		uint64_t serial;

		if (strcmp(event.type->provider, PROVIDER) != 0)
			continue;
		memcpy(&serial, event.payload, sizeof(serial));
		check(serial == count, "another serial than", serial, count);
		check(event.payload_bytes == 10 + size_of(serial) &&
		      memcmp((const char *)event.payload + 10, filling, size_of(serial)) == 0,
		      "torn", serial, event.payload_bytes);
		count++;
	}
	check(ret == 0, rp_reader_error(reader), 0, 0);
	rp_reader_close(reader);
	return ret == 0 ? count : UINT64_MAX;
}

/* Return: a descriptor of the session's directory, or -1. */
static int open_keep(void)
{
	DIR *directory = opendir(keep);
	struct dirent *entry;
	int fd = -1;

	while (directory && fd < 0 && (entry = readdir(directory))) {
		if (entry->d_name[0] != '.')
			fd = openat(dirfd(directory), entry->d_name, O_RDONLY | O_DIRECTORY);
	}
	if (directory)
		closedir(directory);
	return fd;
}

/* Recovers like `ringpipe recover`. Return: events; 0 if there are none. */
static uint64_t recover(int directory_fd)
{
	struct rp_recovery_result result;
	struct rp_recovery recovery;
	int from, to, ret = rp_recovery_read(directory_fd, &recovery);
	uint64_t count;

	if (!check(ret == 0, "cannot be read", (uint64_t)-ret, 0))
		return UINT64_MAX;
	from = open(output, O_RDONLY);
	to = memfd_create("trace", MFD_CLOEXEC);
	ret = rp_recovery_write(&recovery, from, to, &result);
	check(ret == 0, "cannot be recovered", (uint64_t)-ret, 0);
	check(ret != 0 || (result.has_output && !result.damaged && !result.unknown &&
			   !result.lost), "damaged or unknown", result.damaged, result.unknown);
	count = ret == 0 ? count_events(to) : UINT64_MAX;
	rp_recovery_fini(&recovery);
	close(from);
	close(to);
	return count;
}

static void check_now(void)
{
	enum rp_recovery_state state;
	struct rp_recover_header head = { 0 };
	int fd = open_keep();
	bool has_session = fd >= 0 && rp_recovery_look(fd, &state, &head) == 0;
	uint64_t count = 0;

	checks++;
	if (has_session && head.magic[0] && !head.ended) {
		count = recover(fd);
	} else if (progress->confirmed) {
		int whole = open(output, O_RDONLY);

		count = count_events(whole);
		close(whole);
	}
	if (fd >= 0)
		close(fd);
	check(count >= progress->confirmed && count <= progress->confirmed + 1,
	      "recovered, confirmed", count, progress->confirmed);
}

/* Everything that recovery reads, except the contents of rings. */
struct view {
	uint8_t *session;
	size_t session_bytes;
	uint8_t *before;
	const struct rp_ring *rings[RINGS_MAX];
	uint64_t heads[RINGS_MAX];
	uint64_t tails[RINGS_MAX];
	unsigned int ring_count;
	off_t output_bytes;
	uint64_t confirmed;
};

static const void *map_file(int at, const char *name, size_t *ret_bytes)
{
	int fd = openat(at, name, O_RDONLY);
	struct stat stat;
	void *bytes;

	if (fd < 0)
		return NULL;
	*ret_bytes = fstat(fd, &stat) == 0 ? (size_t)stat.st_size : 0;
	bytes = *ret_bytes ? mmap(NULL, *ret_bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	close(fd);
	return bytes == MAP_FAILED ? NULL : bytes;
}

/* Maps files that appeared since the last call. */
static void open_view(struct view *view)
{
	int fd = open_keep();
	char name[32];
	size_t bytes;

	if (fd < 0)
		return;
	if (!view->session) {
		view->session = (uint8_t *)(uintptr_t)map_file(fd, "session", &bytes);
		view->session_bytes = view->session ? bytes : 0;
		view->before = calloc(1, bytes);
	}
	for (; view->session && view->ring_count < RINGS_MAX; view->ring_count++) {
		snprintf(name, sizeof(name), "ring-%u", view->ring_count);
		view->rings[view->ring_count] = map_file(fd, name, &bytes);
		/* A new file is shorter. */
		if (!view->rings[view->ring_count] || bytes <= RP_RING_CONTROL_BYTES)
			break;
	}
	close(fd);
}

/* A buffer becomes free after the record says that the output has all of its events. */
static void check_tails(struct view *view)
{
	const struct rp_recover_header *head = (const void *)view->session;
	const struct rp_recover_record *record;

	if (!head || !head->magic[0] || head->ended)
		return;
	record = (const void *)(view->session + sizeof(*head) + (head->generation & 1) *
				rp_recover_record_bytes(head->ring_space));
	for (uint32_t i = 0; i < view->ring_count; i++) {
		if (view->tails[i] == view->rings[i]->tail)
			continue;
		view->tails[i] = view->rings[i]->tail;
		recycled++;
		check(i < record->ring_count && record->tails[i] >= view->heads[i],
		      "a buffer is free before the record, tail", view->tails[i], i);
	}
}

static bool has_changed(struct view *view)
{
	struct stat stat;
	bool changed = view->confirmed != progress->confirmed;

	check_tails(view);
	view->confirmed = progress->confirmed;
	if (view->session && memcmp(view->session, view->before, view->session_bytes) != 0) {
		memcpy(view->before, view->session, view->session_bytes);
		changed = true;
	}
	for (unsigned int i = 0; i < view->ring_count; i++) {
		changed |= view->heads[i] != view->rings[i]->head;
		view->heads[i] = view->rings[i]->head;
	}
	if (steps % 16 == 0 && lstat(output, &stat) == 0 && stat.st_size != view->output_bytes) {
		view->output_bytes = stat.st_size;
		changed = true;
	}
	return changed;
}

struct tracee {
	pid_t tid;
	bool moving;	/* was stepped, and has not stopped since */
};

static struct tracee tracees[THREADS_MAX];
static unsigned int tracee_count;

static struct tracee *find(pid_t tid)
{
	for (unsigned int i = 0; i < tracee_count; i++) {
		if (tracees[i].tid == tid)
			return &tracees[i];
	}
	if (tracee_count == THREADS_MAX)
		abort();
	tracees[tracee_count] = (struct tracee){ .tid = tid };
	return &tracees[tracee_count++];
}

/* Reads one report. Return: false once the process has ended; *ret_any: there was a report. */
static bool take_report(pid_t process, int flags, bool *ret_any, int *ret_status)
{
	pid_t tid = waitpid(-1, ret_status, __WALL | flags);

	*ret_any = tid > 0;
	if (tid <= 0)
		return !(tid < 0 && errno == ECHILD);
	if (WIFSTOPPED(*ret_status)) {
		find(tid)->moving = false;
		return true;
	}
	find(tid)->moving = true;	/* ended: never stepped again */
	return tid != process;
}

/* Return: whether a thread begins its search for full buffers. */
static bool is_at_retire(const struct tracee *tracee)
{
	struct user_regs_struct registers;

	return !tracee->moving &&
	       ptrace(PTRACE_GETREGS, tracee->tid, NULL, &registers) == 0 &&
	       registers.rip == (uintptr_t)rp_session_retire_buffers;
}

/* Return: whether the drain thread is held. */
static bool hold(const struct tracee *tracee)
{
	if (!progress->hold)
		progress->held = 0;
	else if (!progress->held && is_at_retire(tracee))
		progress->held = 1;
	return progress->held;
}

/* Steps one thread once; a thread in a system call stays there. */
static bool step(pid_t process, struct tracee *tracee, int *ret_status)
{
	int patience = tracee->moving ? 1 : BLOCKED_SPINS;
	bool any, lives = true;

	if (!tracee->moving) {
		tracee->moving = true;
		if (ptrace(PTRACE_SINGLESTEP, tracee->tid, NULL, NULL) != 0)
			return true;
		steps++;
	}
	for (int i = 0; lives && tracee->moving && i < patience; i++)
		lives = take_report(process, WNOHANG, &any, ret_status);
	return lives;
}

static bool all_move(void)
{
	for (unsigned int i = 0; i < tracee_count; i++) {
		if (!tracees[i].moving)
			return false;
	}
	return true;
}

static int look_at(pid_t process)
{
	struct view view = { .session = NULL };
	bool any;
	int status;

	if (waitpid(process, &status, 0) != process || WIFEXITED(status))
		return WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 77 : 1;
	find(process);
	ptrace(PTRACE_SETOPTIONS, process, NULL, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
	for (uint64_t round = 0; ; round++) {
		for (unsigned int i = 0; i < tracee_count; i++) {
			/* The first one is the writer. */
			if (i > 0 && hold(&tracees[i]))
				continue;
			if (!step(process, &tracees[i], &status))
				goto gone;
		}
		if (round % 64 == 0)
			open_view(&view);
		if (has_changed(&view) || round % CHECK_ANYWAY == 0)
			check_now();
		/* If all threads run, one must stop before the next step. */
		if (all_move() && !take_report(process, 0, &any, &status))
			break;
	}
gone:
	check_now();
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0 && progress->done, "it ended badly",
	      (uint64_t)status, progress->done);
	check(recycled > 0, "no buffer became free", 0, 0);
	check(progress->confirmed == EVENTS, "not all were written", progress->confirmed, EVENTS);
	return 0;
}

static int skip(const char *why)
{
	printf("1..0 # SKIP %s\n", why);
	return 0;
}

int main(void)
{
	pid_t process;
	int ret;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return skip("most instructions are the sanitizer's");
#endif
	if (!mkdtemp(folder))
		return skip("no tmpfs");
	snprintf(keep, sizeof(keep), "%s/keep", folder);
	snprintf(output, sizeof(output), "%s/trace", folder);
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (progress == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < sizeof(filling); i++)
		filling[i] = (uint8_t)(i * 7);
	process = fork();
	if (process == 0)
		live();
	ret = look_at(process);
	unlink(output);
	rmdir(keep);
	check(rmdir(folder) == 0, "something is left", (uint64_t)errno, 0);
	if (ret == 77)
		return skip("this process may not trace another");
	puts("TAP version 13");
	printf("# figure: killed after any of %" PRIu64 " instructions, recovered after %" PRIu64
	       "\n", steps, checks);
	printf("%sok 1 - a process killed at any instruction leaves all that was committed\n1..1\n",
	       ret || complaints ? "not " : "");
	return 0;
}
