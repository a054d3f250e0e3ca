/* SPDX-License-Identifier: MIT */
/*
 * ringpipe-dump: writes a core of the process that started it; see report.h. It is a separate
 * program, since a process cannot read its own threads while it is stopped.
 *
 * usage: ringpipe-dump PID TYPE PATH
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/ringpipe-dump/core_file.h"
#include "tools/ringpipe-dump/maps.h"
#include "tools/ringpipe-dump/notes.h"
#include "tools/ringpipe-dump/dump_file.h"
#include "tools/ringpipe-dump/plan.h"
#include "diag/dump_report.h"
#include "tools/ringpipe-dump/tracee.h"

#define LIBRARY_FD 0
#define CLIENT_FD 1
#define PROGRESS_NS (100ull * 1000000)

struct job {
	pid_t pid;
	enum rp_dump_type type;
	const char *path;
	uint64_t reported_ns;
	struct rp_dump_report report;
};

static int fail(struct job *job, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Keeps the first error. */
static int fail(struct job *job, int error, const char *format, ...)
{
	va_list arguments;

	if (job->report.text[0])
		return error;
	va_start(arguments, format);
	vsnprintf(job->report.text, sizeof(job->report.text), format, arguments);
	va_end(arguments);
	return error;
}

/* If the client does not read a report, that report is dropped; the next one is more recent. */
static void report_client(const struct rp_dump_report *report)
{
	uint8_t frame[RP_DUMP_FRAME_BYTES] = { 0 };

	memcpy(frame, &report->state, 4);
	memcpy(frame + 8, &report->threads, 4);
	memcpy(frame + 12, &report->running, 4);
	memcpy(frame + 16, &report->done_bytes, 8);
	memcpy(frame + 24, &report->total_bytes, 8);
	memcpy(frame + 32, &report->file_bytes, 8);
	memcpy(frame + 40, &report->pause_ns, 8);
	send(CLIENT_FD, frame, sizeof(frame), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Whether the library has ended the connection. */
static bool is_given_up(void)
{
	struct pollfd library = { .fd = LIBRARY_FD };

	return poll(&library, 1, 0) > 0 && (library.revents & (POLLHUP | POLLERR));
}

static int progress(uint64_t done_bytes, void *data)
{
	struct job *job = data;
	uint64_t now = rp_clock_monotonic_ns();

	job->report.done_bytes = done_bytes;
	if (now - job->reported_ns < PROGRESS_NS)
		return 0;
	job->reported_ns = now;
	if (is_given_up())
		return fail(job, -ECANCELED, "nobody wants it any more");
	report_client(&job->report);
	return 0;
}

static int explain_stop(struct job *job, int error)
{
	switch (error) {
	case -EPERM:
		return fail(job, error, "the kernel does not let process %d be traced: it may have "
			    "given up being dumpable, or a security policy forbids it", job->pid);
	case -EBUSY:
		return fail(job, error, "another program traces process %d", job->pid);
	case -ESRCH:
		return fail(job, error, "process %d has ended", job->pid);
	default:
		return fail(job, error, "cannot stop process %d: %s", job->pid, strerror(-error));
	}
}

/* Reads the stopped process. Its memory comes last, since it is the largest part. */
static int write_core(struct job *job, const struct rp_tracee *tracee,
		      const struct rp_dump_maps *maps, const struct rp_dump_plan *plan,
		      struct rp_dump_notes *notes, struct rp_dump_output *output)
{
	int r = rp_dump_notes_make(notes, tracee, maps);

	job->report.total_bytes = plan->data_bytes;
	report_client(&job->report);
	if (r == 0)
		r = rp_dump_core_write_memory(output->fd, job->pid, plan, notes, progress, job);
	if (r < 0)
		return fail(job, r, "cannot write %.380s: %s", job->path, strerror(-r));
	return 0;
}

static int dump_stopped(struct job *job, struct rp_tracee *tracee, struct rp_dump_output *output)
{
	struct rp_dump_maps maps = { 0 };
	struct rp_dump_plan plan = { .pagemap_fd = -1 };
	struct rp_dump_notes notes = { 0 };
	int r = rp_tracee_read(tracee);

	job->report.threads = (uint32_t)tracee->count;
	for (size_t i = 0; i < tracee->count; i++)
		job->report.running += !tracee->threads[i].stopped;
	if (r == 0 && tracee->count == 0)
		r = explain_stop(job, -ESRCH);
	if (r == 0)
		r = rp_dump_maps_read(&maps, job->pid);
	if (r == 0)
		r = rp_dump_plan_make(&plan, &maps, tracee, job->type);
	if (r < 0)
		fail(job, r, "cannot look at process %d: %s", job->pid, strerror(-r));
	else
		r = write_core(job, tracee, &maps, &plan, &notes, output);
	job->report.pause_ns = rp_tracee_release(tracee);
	if (r == 0)
		r = rp_dump_core_write_headers(output->fd, &plan, &notes, &job->report.file_bytes);
	if (r == 0)
		r = rp_dump_output_publish(output);
	if (r < 0)
		fail(job, r, "cannot write %.380s: %s", job->path, strerror(-r));
	rp_dump_notes_fini(&notes);
	rp_dump_plan_fini(&plan);
	rp_dump_maps_fini(&maps);
	return r;
}

static int dump(struct job *job)
{
	struct rp_dump_output output;
	struct rp_tracee tracee;
	int r = rp_dump_output_open(&output, job->path);

	if (r < 0) {
		rp_dump_output_close(&output);
		return fail(job, r, "cannot write %.380s: %s", job->path,
			    r == -EEXIST ? "it is not a regular file" : strerror(-r));
	}
	r = rp_tracee_stop(&tracee, job->pid);
	if (r < 0) {
		rp_tracee_release(&tracee);
		explain_stop(job, r);
	} else {
		r = dump_stopped(job, &tracee, &output);
	}
	rp_tracee_fini(&tracee);
	rp_dump_output_close(&output);
	return r;
}

/* SIGCHLD is waited for; the other signals must not end the program with a file half written. */
static void prepare_signals(void)
{
	sigset_t child;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
}

int main(int argc, char **argv)
{
	struct job job = { .report.state = RP_DUMP_RUNS };
	char go;
	int r;

	if (argc != 4) {
		fprintf(stderr, "usage: ringpipe-dump PID TYPE PATH\n"
			"The library starts this program; see ringpipe dump --help.\n");
		return 2;
	}
	/* Close the descriptors that the host leaves open for its children. */
	syscall(SYS_close_range, 3u, ~0u, 0u);
	prepare_signals();
	job.pid = atoi(argv[1]);
	job.type = (enum rp_dump_type)atoi(argv[2]);
	job.path = argv[3];
	if (recv(LIBRARY_FD, &go, sizeof(go), 0) != sizeof(go))
		return 1;
	r = dump(&job);
	job.report.state = r == 0 ? RP_DUMP_DONE : RP_DUMP_FAILED;
	send(LIBRARY_FD, &job.report, sizeof(job.report), MSG_NOSIGNAL);
	return r == 0 ? 0 : 1;
}
