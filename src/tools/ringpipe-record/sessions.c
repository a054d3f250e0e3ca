/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/sessions.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/ringpipe/tool.h"
#include "tools/ringpipe/tree.h"

/* Each process has a buffer of this size, and there may be hundreds of processes. */
#define BUFFER_MB 16u

/* In the new process. Ctrl-C on a terminal is for the parent alone, which stops this process. */
static void run(const struct rp_record_sessions *sessions, const struct rp_recording_plan *plan,
		struct rp_output *output)
{
	struct rp_recording_result result;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	rp_tree_run(plan, output, &result);
	sessions->report->events = result.events;
	sessions->report->lost = result.lost;
	sessions->report->is_written = result.end == RP_RECORDING_STOPPED;
	_exit(0);
}

int rp_record_sessions_start(struct rp_record_sessions *sessions,
			     const struct rp_record_providers *providers, pid_t root,
			     int machine_fd, struct rp_output *output)
{
	const struct rp_recording_plan plan = {
		.providers = providers->own,
		.provider_count = providers->own_count,
		.dotnet_providers = providers->dotnet,
		.dotnet_provider_count = providers->dotnet_count,
		.buffer_mb = BUFFER_MB,
		.format = 6,
		.machine = true,
		.root = root,
		.machine_fd = machine_fd,
	};
	void *report = mmap(NULL, sizeof(*sessions->report), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (report == MAP_FAILED)
		return -errno;
	sessions->report = report;
	fflush(NULL);
	sessions->process = fork();
	if (sessions->process == 0)
		run(sessions, &plan, output);
	if (sessions->process > 0)
		return 0;
	sessions->process = 0;
	return -errno;
}

/* Note that the process has ended. */
static void take_end(struct rp_record_sessions *sessions, int status)
{
	sessions->process = 0;
	if (WIFSIGNALED(status))
		rp_tool_error("record: the process that writes the trace was killed by signal %d",
			      WTERMSIG(status));
}

bool rp_record_sessions_failed(struct rp_record_sessions *sessions)
{
	int status;

	if (!sessions->process || waitpid(sessions->process, &status, WNOHANG) != sessions->process)
		return false;
	take_end(sessions, status);
	return true;
}

int rp_record_sessions_stop(struct rp_record_sessions *sessions)
{
	int status = 0;

	if (sessions->process) {
		kill(sessions->process, SIGINT);
		while (waitpid(sessions->process, &status, 0) < 0 && errno == EINTR)
			;
		take_end(sessions, status);
	}
	return sessions->report && sessions->report->is_written ? 0 : -EIO;
}

void rp_record_sessions_fini(struct rp_record_sessions *sessions)
{
	(void)rp_record_sessions_stop(sessions);
	if (sessions->report)
		munmap(sessions->report, sizeof(*sessions->report));
}
