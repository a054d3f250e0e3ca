/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cli/signals.h"
#include "tools/cli/tool.h"
#include "tools/client/tree.h"

/* Each process has a buffer of this size, and there may be hundreds of processes. */
#define BUFFER_MB 16u

#define POLL_MS 50
#define REPORT_MS 2000

/*
 * The default of --providers. The sampler of a process supplies the frames of a language runtime,
 * at about the frequency of the recorder's samples; processes without such a runtime take no
 * samples. The second is the profile dotnet-common of dotnet-trace.
 */
#define OWN_PROVIDERS \
	"*:0xffffffffffffffff:4," \
	"Microsoft-DotNETCore-SampleProfiler:0:4:HostOnly=1;SampleProfilerIntervalMS=10"
#define DOTNET_PROVIDERS "Microsoft-Windows-DotNETRuntime:0x100003801d:4"

int rp_record_providers_parse(const struct rp_tool_options *options,
			      struct rp_record_providers *ret_providers)
{
	const char *given = options->providers;
	int ret = rp_recording_providers_parse(given ? given : OWN_PROVIDERS, "record",
					       &ret_providers->own, &ret_providers->own_count);

	if (ret == 0)
		ret = rp_recording_providers_parse(given ? given : DOTNET_PROVIDERS, "record",
						   &ret_providers->dotnet,
						   &ret_providers->dotnet_count);
	if (ret == 0)
		ret = rp_recording_search_providers(options, "record", ret_providers->own,
						    ret_providers->own_count,
						    &ret_providers->search);
	return ret;
}

void rp_record_providers_fini(struct rp_record_providers *providers)
{
	rp_provider_search_destroy(providers->search);
	free(providers->own);
	free(providers->dotnet);
}

/* In the new process. Ctrl-C on a terminal is for the parent alone, which stops this process. */
static void run(const struct rp_record_sessions *sessions, const struct rp_recording_plan *plan,
		struct rp_output *output, int begin_fd, pid_t parent)
{
	struct rp_recording_result result;
	char word;

	setpgid(0, 0);
	rp_signals_end_with(parent);
	if (read(begin_fd, &word, 1) != 1)
		_exit(0);
	close(begin_fd);
	rp_tree_run(plan, output, &result);
	sessions->report->events = result.events;
	sessions->report->lost = result.lost;
	sessions->report->losses = result.losses;
	sessions->report->is_written = result.end == RP_RECORDING_STOPPED ||
				       result.end == RP_RECORDING_GAVE_UP;
	sessions->report->has_ended = true;
	_exit(0);
}

int rp_record_sessions_start(struct rp_record_sessions *sessions,
			     const struct rp_record_providers *providers,
			     const struct rp_record_scope *scope,
			     int machine_fd, struct rp_output *output)
{
	struct rp_recording_plan plan = {
		.providers = providers->own,
		.provider_count = providers->own_count,
		.dotnet_providers = providers->dotnet,
		.dotnet_provider_count = providers->dotnet_count,
		.search = providers->search,
		.buffer_mb = BUFFER_MB,
		.format = 6,
		.rundown = rp_recording_has_sampler(providers->own, providers->own_count),
		.machine = true,
		.roots = scope->roots,
		.filter = scope->filter,
		.until = scope->until,
		.machine_fd = machine_fd,
	};
	void *report = mmap(NULL, sizeof(*sessions->report), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const pid_t parent = getpid();
	int begin[2];

	if (report == MAP_FAILED)
		return -errno;
	sessions->report = report;
	plan.progress = &sessions->report->progress;
	if (pipe2(begin, O_CLOEXEC) != 0)
		return -errno;
	fflush(NULL);
	sessions->process = fork();
	if (sessions->process == 0) {
		close(begin[1]);
		run(sessions, &plan, output, begin[0], parent);
	}
	close(begin[0]);
	sessions->begin_fd = begin[1];
	if (sessions->process > 0)
		return 0;
	sessions->process = 0;
	return -errno;
}

static void close_begin(struct rp_record_sessions *sessions)
{
	if (sessions->begin_fd >= 0)
		close(sessions->begin_fd);
	sessions->begin_fd = -1;
}

void rp_record_sessions_begin(struct rp_record_sessions *sessions)
{
	/* A process that has ended is noticed by rp_record_sessions_failed(). */
	(void)!write(sessions->begin_fd, "b", 1);
	close_begin(sessions);
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

int rp_record_sessions_error(const struct rp_record_sessions *sessions)
{
	return sessions->report ? sessions->report->progress.error : 0;
}

bool rp_record_sessions_has_losses(const struct rp_record_sessions *sessions)
{
	return !sessions->report || sessions->report->has_ended;
}

/* Return: whether a request came to cut the streams. `is_reported`: the first one does so. */
static bool has_cut_request(struct rp_stop_requests *requests, bool is_reported)
{
	const unsigned int before = requests->count;

	return rp_stop_requests_take(requests) || (is_reported && requests->count > before);
}

/*
 * The process counts SIGINT and SIGTERM as two requests. Two of one signal would be one if it had
 * not taken the first yet.
 */
static void wait_for_end(struct rp_record_sessions *sessions, struct rp_stop_requests *requests)
{
	struct pollfd wait = { .fd = requests->signal_fd, .events = POLLIN };
	const int64_t report_ms = rp_now_ms() + REPORT_MS;
	bool is_reported = false;

	while (!rp_record_sessions_failed(sessions)) {
		(void)poll(&wait, 1, POLL_MS);
		if (has_cut_request(requests, is_reported) && !sessions->is_cut) {
			sessions->is_cut = true;
			kill(sessions->process, SIGTERM);
		} else if (requests->count && !sessions->report->progress.has_request) {
			/* Its wait for the reader looks for this at any signal. */
			sessions->report->progress.has_request = true;
			kill(sessions->process, SIGCHLD);
		}
		if (is_reported || sessions->is_cut || rp_now_ms() < report_ms)
			continue;
		rp_tool_error("record: waiting for a process to end its stream; Ctrl-C cuts it");
		is_reported = true;
	}
}

int rp_record_sessions_stop(struct rp_record_sessions *sessions,
			    struct rp_stop_requests *requests)
{
	close_begin(sessions);
	if (sessions->process) {
		sessions->report->progress.has_request = requests->count > 0;
		kill(sessions->process, SIGINT);
		wait_for_end(sessions, requests);
	}
	if (rp_record_sessions_error(sessions))
		return rp_record_sessions_error(sessions);
	return sessions->report && sessions->report->is_written ? 0 : -ECANCELED;
}

void rp_record_sessions_fini(struct rp_record_sessions *sessions,
			     struct rp_stop_requests *requests)
{
	(void)rp_record_sessions_stop(sessions, requests);
	if (sessions->report)
		munmap(sessions->report, sizeof(*sessions->report));
}
