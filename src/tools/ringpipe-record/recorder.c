/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/ringpipe-record/functions.h"
#include "tools/ringpipe-record/perf_events.h"
#include "tools/ringpipe-record/stack_walk.h"
#include "tools/ringpipe-record/machine_trace.h"
#include "tools/ringpipe/tool.h"

/* Memory for the kernel's rings: a share for each processor, within limits. */
#define RINGS_BYTES (32u << 20)
#define RING_BYTES_MIN (256u << 10)
#define RING_BYTES_MAX (8u << 20)

/* redis-benchmark, for one, has a buffer of 16 KB on its stack. */
#define STACK_BYTES (32u << 10)
#define FRAMES_MAX 512u

/* Names of functions are written at least this often. */
#define NAMES_NS 5000000000ull

struct rp_recorder {
	struct rp_recorder_options options;
	struct rp_perf *perf;
	struct rp_images *images;
	struct rp_process_table *processes;
	struct rp_functions *functions;
	struct rp_record_trace *trace;
	uint64_t named_ns;		/* when functions were named last */
	uint64_t ends[RP_WALK_FRAMES_MAX + 1];	/* how walks ended */
	uint64_t frames[FRAMES_MAX];
};

static size_t ring_bytes(void)
{
	size_t share = RINGS_BYTES / (size_t)sysconf(_SC_NPROCESSORS_CONF), bytes = RING_BYTES_MIN;

	while (bytes * 2 <= share && bytes < RING_BYTES_MAX)
		bytes *= 2;
	return bytes;
}

static void explain(const char *call, int error)
{
	rp_tool_error("record: %s: %s", call, strerror(-error));
	if (error == -EACCES || error == -EPERM)
		rp_tool_error("    recording all processes needs root or CAP_PERFMON: "
			      "sudo ringpipe record …, or setcap cap_perfmon,cap_sys_ptrace+ep on "
			      "ringpipe-record");
}

static int open_perf(struct rp_recorder *recorder)
{
	const struct rp_perf_options options = {
		.frequency_hz = recorder->options.frequency_hz,
		.stack_bytes = STACK_BYTES,
		.ring_bytes = ring_bytes(),
	};
	const char *call;
	int ret = rp_perf_open(&options, &recorder->perf, &call);

	if (ret < 0)
		explain(call, ret);
	return ret;
}

static int open_rest(struct rp_recorder *recorder)
{
	int ret = rp_images_create(&recorder->images);

	if (ret == 0)
		ret = rp_process_table_create(recorder->images, &recorder->processes);
	if (ret == 0)
		ret = rp_functions_create(&recorder->functions);
	if (ret == 0 && rp_functions_kernel_error(recorder->functions) < 0)
		rp_tool_error("record: the kernel shows no addresses of its functions, so they "
			      "have no names: sysctl kernel.kptr_restrict=0");
	return ret;
}

int rp_recorder_create(const struct rp_recorder_options *options,
		       struct rp_recorder **ret_recorder)
{
	struct rp_recorder *recorder = calloc(1, sizeof(*recorder));
	int ret;

	if (!recorder)
		return -ENOMEM;
	recorder->options = *options;
	ret = open_perf(recorder);
	if (ret == 0)
		ret = open_rest(recorder);
	if (ret < 0) {
		rp_recorder_destroy(recorder);
		return ret;
	}
	*ret_recorder = recorder;
	return 0;
}

void rp_recorder_destroy(struct rp_recorder *recorder)
{
	if (!recorder)
		return;
	rp_perf_close(recorder->perf);
	rp_record_trace_destroy(recorder->trace);
	rp_functions_destroy(recorder->functions);
	rp_process_table_destroy(recorder->processes);
	rp_images_destroy(recorder->images);
	free(recorder);
}

/* The records of changes begin before /proc is read, so that no change is missed. */
int rp_recorder_start(struct rp_recorder *recorder)
{
	int ret = rp_record_trace_create(recorder->options.output, recorder->options.frequency_hz,
				  &recorder->trace);

	if (ret == 0)
		ret = rp_perf_enable(recorder->perf);
	if (ret == 0)
		ret = rp_process_table_scan(recorder->processes);
	recorder->named_ns = rp_clock_monotonic_ns();
	return ret;
}

int rp_recorder_fd(const struct rp_recorder *recorder)
{
	return rp_perf_fd(recorder->perf);
}

/* Frames of the kernel, then those of the program. */
static uint32_t collect_frames(struct rp_recorder *recorder, const struct rp_perf_record *record,
			       const struct rp_machine_process *process)
{
	uint32_t count = record->sample.kernel_frame_count;
	enum rp_walk_end end;

	memcpy(recorder->frames, record->sample.kernel_frames, count * sizeof(uint64_t));
	if (!record->sample.registers)
		return count;
	count += rp_stack_walk(&process->space, record->sample.registers, record->sample.stack,
			       record->sample.stack_bytes, recorder->frames + count,
			       FRAMES_MAX - count, &end);
	recorder->ends[end]++;
	return count;
}

static int take_sample(struct rp_recorder *recorder, const struct rp_perf_record *record)
{
	struct rp_record_trace_place place = {
		.time_ns = record->time_ns,
		.processor = record->processor,
		.thread = rp_process_table_thread(recorder->processes, record->process,
						  record->thread),
	};
	uint32_t count;

	if (!place.thread)
		return -ENOMEM;
	count = collect_frames(recorder, record, place.thread->process);
	return rp_record_sample(recorder->trace, &place, record->sample.period_ns,
			       recorder->frames, count);
}

static int take_record(void *user, const struct rp_perf_record *record)
{
	struct rp_recorder *recorder = user;
	struct rp_machine_process *ended;
	int ret;

	if (record->kind == RP_PERF_SAMPLE)
		return take_sample(recorder, record);
	ret = rp_process_table_follow(recorder->processes, record, &ended);
	if (ret == 0 && ended)
		ret = rp_record_process_end(recorder->trace, ended, record->time_ns);
	return ret;
}

static uint64_t lost_total(const struct rp_recorder *recorder)
{
	struct rp_perf_stats stats;

	rp_perf_stats(recorder->perf, &stats);
	return stats.lost[RP_PERF_LOSS_FULL] + stats.lost[RP_PERF_LOSS_DAMAGED];
}

/* Symbol tables take time to read, so only names since the last time are looked up. */
static int name_functions(struct rp_recorder *recorder)
{
	int ret = rp_functions_resolve(recorder->functions, recorder->trace);

	recorder->named_ns = rp_clock_monotonic_ns();
	rp_process_table_forget(recorder->processes);
	return ret;
}

int rp_recorder_pass(struct rp_recorder *recorder)
{
	uint64_t limit_ns = rp_perf_limit(recorder->perf);
	int ret = rp_perf_drain(recorder->perf, limit_ns, take_record, recorder);

	if (ret == 0 && rp_clock_monotonic_ns() - recorder->named_ns > NAMES_NS)
		ret = name_functions(recorder);
	return ret ? ret : rp_record_flush(recorder->trace, limit_ns, lost_total(recorder));
}

int rp_recorder_finish(struct rp_recorder *recorder)
{
	int ret;

	rp_perf_disable(recorder->perf);
	(void)rp_perf_limit(recorder->perf);
	ret = rp_perf_drain(recorder->perf, UINT64_MAX, take_record, recorder);
	if (ret == 0)
		ret = name_functions(recorder);
	return ret ? ret : rp_record_end(recorder->trace, rp_clock_monotonic_ns(),
					lost_total(recorder));
}

void rp_recorder_stats(const struct rp_recorder *recorder, struct rp_recorder_stats *ret_stats)
{
	struct rp_record_trace_stats trace;
	struct rp_perf_stats perf;

	rp_record_trace_stats(recorder->trace, &trace);
	rp_perf_stats(recorder->perf, &perf);
	*ret_stats = (struct rp_recorder_stats){
		.samples = trace.samples,
		.waits = trace.waits,
		.processes = trace.processes,
		.functions = trace.functions,
		.lost_samples = perf.lost[RP_PERF_LOSS_FULL],
		.lost_records = perf.lost[RP_PERF_LOSS_DAMAGED],
		.late = perf.late,
		.whole_stacks = recorder->ends[RP_WALK_OUTERMOST],
		.cut_stacks = recorder->ends[RP_WALK_COPY_END] +
			      recorder->ends[RP_WALK_NO_RULES] +
			      recorder->ends[RP_WALK_FRAMES_MAX],
		.bytes = trace.bytes,
		.memory_bytes = perf.memory_bytes,
	};
}
