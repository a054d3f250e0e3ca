/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/switch_waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/ringpipe-record/perf_events.h"
#include "tools/ringpipe-record/thread_states.h"

/* A thread that is off its processor. */
struct sleeper {
	pid_t thread;
	uint64_t began_ns;		/* 0: it runs, or that is unknown */
	bool is_preempted;
	bool has_ended;			/* it leaves its processor once more */
	uint32_t frame_count;
	uint64_t frames[RP_WAIT_FRAMES_MAX];
};

struct rp_switch_waits {
	struct rp_perf *perf;
	uint64_t threshold_ns;
	rp_waits_callback callback;
	void *user;
	struct rp_thread_states sleepers;	/* struct sleeper */
};

/* The sample of a switch comes right before the thread leaves its processor. */
static void take_stack(struct sleeper *sleeper, const struct rp_perf_record *record)
{
	sleeper->frame_count = record->sample.kernel_frame_count < RP_WAIT_FRAMES_MAX ?
			       record->sample.kernel_frame_count : RP_WAIT_FRAMES_MAX;
	memcpy(sleeper->frames, record->sample.kernel_frames,
	       sleeper->frame_count * sizeof(uint64_t));
}

static int end_wait(struct rp_switch_waits *waits, struct sleeper *sleeper,
		    const struct rp_perf_record *record)
{
	struct rp_wait_record wait = {
		.kind = RP_WAIT_ENDED,
		.state = sleeper->is_preempted ? RP_WAIT_PREEMPTED : RP_WAIT_SLEEPS,
		.process = (uint32_t)record->process, .thread = (uint32_t)record->thread,
		.processor = record->processor, .kernel_frames = sleeper->frame_count,
		.time_ns = record->time_ns, .began_ns = sleeper->began_ns,
	};

	sleeper->began_ns = 0;
	if (record->time_ns - wait.began_ns < waits->threshold_ns)
		return 0;
	memcpy(wait.frames, sleeper->frames, sleeper->frame_count * sizeof(uint64_t));
	return waits->callback(waits->user, &wait);
}

static int take_record(void *user, const struct rp_perf_record *record)
{
	struct rp_switch_waits *waits = user;
	struct sleeper *sleeper;

	/* An earlier thread may have had the id. */
	if (record->kind == RP_PERF_START)
		rp_thread_states_remove(&waits->sleepers, record->thread);
	/* Thread 0 is the processor's idle thread. */
	if (record->thread == 0 ||
	    (record->kind != RP_PERF_SAMPLE && record->kind != RP_PERF_SWITCH &&
	     record->kind != RP_PERF_END))
		return 0;
	sleeper = rp_thread_states_get(&waits->sleepers, record->thread);
	if (!sleeper)
		return -ENOMEM;
	if (record->kind == RP_PERF_END) {
		sleeper->has_ended = true;
	} else if (record->kind == RP_PERF_SAMPLE) {
		take_stack(sleeper, record);
	} else if (record->is_switch_out && sleeper->has_ended && !record->is_preempted) {
		rp_thread_states_remove(&waits->sleepers, record->thread);
	} else if (record->is_switch_out) {
		sleeper->began_ns = record->time_ns;
		sleeper->is_preempted = record->is_preempted;
	} else if (sleeper->began_ns) {
		return end_wait(waits, sleeper, record);
	}
	return 0;
}

int rp_switch_waits_start(const struct rp_waits_options *options, rp_waits_callback callback,
			  void *user, struct rp_switch_waits **ret_waits)
{
	const struct rp_perf_options perf_options = {
		.ring_bytes = options->ring_bytes / (size_t)sysconf(_SC_NPROCESSORS_CONF),
		.is_switches = true,
	};
	struct rp_switch_waits *waits = calloc(1, sizeof(*waits));
	const char *call;
	int ret;

	if (!waits)
		return -ENOMEM;
	waits->threshold_ns = options->threshold_ns;
	waits->sleepers.state_bytes = sizeof(struct sleeper);
	waits->callback = callback;
	waits->user = user;
	ret = rp_perf_open(&perf_options, &waits->perf, &call);
	if (ret == 0)
		ret = rp_perf_enable(waits->perf);
	if (ret < 0) {
		rp_switch_waits_destroy(waits);
		return ret;
	}
	*ret_waits = waits;
	return 0;
}

void rp_switch_waits_destroy(struct rp_switch_waits *waits)
{
	if (!waits)
		return;
	rp_perf_close(waits->perf);
	rp_thread_states_fini(&waits->sleepers);
	free(waits);
}

int rp_switch_waits_fd(const struct rp_switch_waits *waits)
{
	return rp_perf_fd(waits->perf);
}

int rp_switch_waits_drain(struct rp_switch_waits *waits, bool is_last)
{
	const uint64_t limit_ns = rp_perf_limit(waits->perf);

	return rp_perf_drain(waits->perf, is_last ? UINT64_MAX : limit_ns, take_record, waits);
}

void rp_switch_waits_stop(struct rp_switch_waits *waits)
{
	rp_perf_disable(waits->perf);
}

uint64_t rp_switch_waits_lost(const struct rp_switch_waits *waits)
{
	struct rp_perf_stats stats;

	rp_perf_stats(waits->perf, &stats);
	return stats.lost[RP_PERF_LOSS_FULL] + stats.lost[RP_PERF_LOSS_DAMAGED];
}
