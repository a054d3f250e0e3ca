/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-dump/tracee.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"

/* A thread in an uninterruptible sleep of a file system may stop late, or never. */
#define STOP_NS (3000ull * 1000000)
#define XSTATE_BYTES_MAX (64u << 10)

static struct rp_tracee_thread *find(struct rp_tracee *tracee, pid_t tid)
{
	for (size_t i = 0; i < tracee->count; i++) {
		if (tracee->threads[i].tid == tid)
			return &tracee->threads[i];
	}
	return NULL;
}

static int add(struct rp_tracee *tracee, pid_t tid)
{
	if (tracee->count == tracee->capacity) {
		size_t capacity = tracee->capacity ? 2 * tracee->capacity : 16;
		struct rp_tracee_thread *grown = realloc(tracee->threads,
							 capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		tracee->threads = grown;
		tracee->capacity = capacity;
	}
	tracee->threads[tracee->count++] = (struct rp_tracee_thread){ .tid = tid };
	return 0;
}

/* The text after `key` in a status file, or NULL. */
static const char *status_field(const char *status, const char *key)
{
	const char *at = strstr(status, key);

	return at ? at + strlen(key) + strspn(at + strlen(key), " \t") : NULL;
}

static int read_status(pid_t tid, char *status, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	n = rp_file_read(path, status, size - 1);
	if (n < 0)
		return (int)n;
	status[n] = '\0';
	return 0;
}

/* The kernel reports EPERM for several causes. Return: 0 for a thread that has ended. */
static int explain_eperm(pid_t tid)
{
	char status[4096];
	const char *state, *tracer;

	if (read_status(tid, status, sizeof(status)) < 0)
		return 0;
	state = status_field(status, "\nState:");
	tracer = status_field(status, "\nTracerPid:");
	if (state && (*state == 'Z' || *state == 'X'))
		return 0;
	return tracer && atoi(tracer) != 0 ? -EBUSY : -EPERM;
}

static int seize(struct rp_tracee *tracee, pid_t tid)
{
	int r;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return errno == EPERM ? explain_eperm(tid) : errno == ESRCH ? 0 : -errno;
	r = add(tracee, tid);
	if (r == 0)
		ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	return r;
}

/* Return: the number of threads found since the last scan, or -errno. */
static int seize_new(struct rp_tracee *tracee)
{
	char path[64];
	struct dirent *entry;
	int added = 0, r = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", tracee->pid);
	tasks = opendir(path);
	if (!tasks)
		return errno == ENOENT ? -ESRCH : -errno;
	while (r == 0 && (entry = readdir(tasks))) {
		pid_t tid = atoi(entry->d_name);
		size_t before = tracee->count;

		if (tid <= 0 || find(tracee, tid))
			continue;
		r = seize(tracee, tid);
		added += (int)(tracee->count - before);
	}
	closedir(tasks);
	return r < 0 ? r : added;
}

static size_t count_running(const struct rp_tracee *tracee)
{
	size_t running = 0;

	for (size_t i = 0; i < tracee->count; i++)
		running += !tracee->threads[i].stopped && !tracee->threads[i].gone;
	return running;
}

static void note_stop(struct rp_tracee *tracee, pid_t tid, int status)
{
	struct rp_tracee_thread *thread = find(tracee, tid);

	if (!thread)
		return;
	if (!WIFSTOPPED(status)) {
		thread->gone = true;
		return;
	}
	thread->stopped = true;
	/* Any other stop is a signal that arrived first: the thread gets it on release. */
	thread->signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
}

/* SIGCHLD is blocked, and becomes pending at each stop. */
static void await_stops(struct rp_tracee *tracee, uint64_t deadline_ns)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (count_running(tracee) > 0) {
		uint64_t now = rp_clock_monotonic_ns();
		struct timespec wait = { 0 };
		int status;
		pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);

		if (tid > 0) {
			note_stop(tracee, tid, status);
			continue;
		}
		if (tid < 0 || now >= deadline_ns)
			return;
		wait.tv_sec = (time_t)((deadline_ns - now) / 1000000000);
		wait.tv_nsec = (long)((deadline_ns - now) % 1000000000);
		sigtimedwait(&child, NULL, &wait);
	}
}

int rp_tracee_stop(struct rp_tracee *tracee, pid_t pid)
{
	uint64_t deadline;
	int r;

	*tracee = (struct rp_tracee){ .pid = pid, .stopped_ns = rp_clock_monotonic_ns() };
	deadline = tracee->stopped_ns + STOP_NS;
	/* A running thread may start another; once all have stopped, no new thread appears. */
	while ((r = seize_new(tracee)) > 0)
		await_stops(tracee, deadline);
	if (r == 0 && tracee->count == 0)
		r = -ESRCH;
	return r;
}

static uint64_t status_mask(const char *status, const char *key)
{
	const char *at = status_field(status, key);

	return at ? strtoull(at, NULL, 16) : 0;
}

static void read_identity(struct rp_tracee_thread *thread)
{
	struct elf_prstatus *out = &thread->status;
	char path[64], status[4096];
	const char *parent;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", thread->tid);
	n = rp_file_read(path, thread->name, sizeof(thread->name) - 1);
	thread->name[n > 0 ? n : 0] = '\0';
	thread->name[strcspn(thread->name, "\n")] = '\0';
	out->pr_pid = thread->tid;
	out->pr_cursig = (short)thread->signal;
	out->pr_info.si_signo = thread->signal;
	if (read_status(thread->tid, status, sizeof(status)) < 0)
		return;
	parent = status_field(status, "\nPPid:");
	out->pr_ppid = parent ? atoi(parent) : 0;
	out->pr_sigpend = status_mask(status, "\nSigPnd:");
	out->pr_sighold = status_mask(status, "\nSigBlk:");
}

static int read_registers(struct rp_tracee_thread *thread, void *scratch)
{
	struct iovec integer = { &thread->status.pr_reg, sizeof(thread->status.pr_reg) };
	struct iovec fp = { &thread->fp, sizeof(thread->fp) };

	ptrace(PTRACE_GETREGSET, thread->tid, NT_PRSTATUS, &integer);
	thread->has_fp = ptrace(PTRACE_GETREGSET, thread->tid, NT_PRFPREG, &fp) == 0;
	thread->status.pr_fpvalid = thread->has_fp;
#if defined(__x86_64__)
	struct iovec extended = { scratch, XSTATE_BYTES_MAX };

	if (ptrace(PTRACE_GETREGSET, thread->tid, NT_X86_XSTATE, &extended) < 0)
		return 0;
	thread->xstate = malloc(extended.iov_len);
	if (!thread->xstate)
		return -ENOMEM;
	memcpy(thread->xstate, scratch, extended.iov_len);
	thread->xstate_bytes = extended.iov_len;
#else
	(void)scratch;
#endif
	return 0;
}

static void main_thread_first(struct rp_tracee *tracee)
{
	struct rp_tracee_thread *leader = find(tracee, tracee->pid), first;

	if (!leader)
		return;
	first = tracee->threads[0];
	tracee->threads[0] = *leader;
	*leader = first;
}

int rp_tracee_read(struct rp_tracee *tracee)
{
	void *scratch = malloc(XSTATE_BYTES_MAX);
	int r = scratch ? 0 : -ENOMEM;
	size_t kept = 0;

	for (size_t i = 0; i < tracee->count; i++) {
		if (!tracee->threads[i].gone)
			tracee->threads[kept++] = tracee->threads[i];
	}
	tracee->count = kept;
	if (kept > 0)
		main_thread_first(tracee);
	for (size_t i = 0; i < tracee->count && r == 0; i++) {
		read_identity(&tracee->threads[i]);
		if (tracee->threads[i].stopped)
			r = read_registers(&tracee->threads[i], scratch);
	}
	free(scratch);
	return r;
}

uint64_t rp_tracee_release(struct rp_tracee *tracee)
{
	for (size_t i = 0; i < tracee->count; i++) {
		const struct rp_tracee_thread *thread = &tracee->threads[i];

		/* A thread that did not stop is released when this program ends. */
		if (thread->stopped)
			ptrace(PTRACE_DETACH, thread->tid, NULL, (void *)(intptr_t)thread->signal);
	}
	return rp_clock_monotonic_ns() - tracee->stopped_ns;
}

void rp_tracee_fini(struct rp_tracee *tracee)
{
	for (size_t i = 0; i < tracee->count; i++)
		free(tracee->threads[i].xstate);
	free(tracee->threads);
}
