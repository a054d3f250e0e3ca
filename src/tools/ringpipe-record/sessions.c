/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/sessions.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/ringpipe/target.h"
#include "tools/ringpipe/tree.h"

/* Each process has a buffer of this size, and there may be hundreds of processes. */
#define BUFFER_MB 16u

/* In the new process. Ctrl-C on a terminal is for the parent alone, which stops this process. */
static void run(const struct rp_record_sessions *sessions,
		const struct rp_session_provider *providers, size_t provider_count)
{
	const struct rp_recording_plan plan = {
		.providers = providers,
		.provider_count = provider_count,
		.buffer_mb = BUFFER_MB,
		.format = 6,
		.machine = true,
	};
	struct rp_recording_result result;
	struct rp_output output;
	char path[32];

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", sessions->spool_fd);
	if (rp_output_open(&output, path, true) < 0)
		_exit(1);
	rp_tree_run(&plan, &output, &result);
	_exit(rp_output_close(&output) < 0 || result.end != RP_RECORDING_STOPPED);
}

int rp_record_sessions_start(struct rp_record_sessions *sessions,
			     const struct rp_session_provider *providers, size_t provider_count,
			     const struct rp_output *output)
{
	sessions->process = 0;
	sessions->spool_fd = rp_output_open_spool(output, rp_target_directory());
	if (sessions->spool_fd < 0)
		return sessions->spool_fd;
	fflush(NULL);
	sessions->process = fork();
	if (sessions->process == 0)
		run(sessions, providers, provider_count);
	return sessions->process < 0 ? -errno : 0;
}

void rp_record_sessions_stop(struct rp_record_sessions *sessions)
{
	if (sessions->process <= 0)
		return;
	kill(sessions->process, SIGINT);
	while (waitpid(sessions->process, NULL, 0) < 0 && errno == EINTR)
		;
	sessions->process = 0;
}

void rp_record_sessions_fini(struct rp_record_sessions *sessions)
{
	rp_record_sessions_stop(sessions);
	if (sessions->spool_fd >= 0)
		close(sessions->spool_fd);
}
