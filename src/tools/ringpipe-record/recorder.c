/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/recorder_parts.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/client/machine_time.h"
#include "tools/ringpipe-record/bounded_call.h"
#include "tools/ringpipe-record/scheduling.h"
#include "tools/ringpipe-record/stack_walk.h"
#include "tools/cli/tool.h"

#define RING_BYTES_MAX (8u << 20)

/* redis-benchmark, for one, has a buffer of 16 KB on its stack. */
#define STACK_BYTES (32u << 10)
#define UNPRIVILEGED_STACK_BYTES (16u << 10)	/* as the rings are small */

/* Names of functions are written at least this often. */
#define NAMES_NS 5000000000ull

/* Half of the buffer is for the processors' rings of perf_events, half for that of BPF. */
static size_t ring_bytes(const struct rp_recorder_options *options)
{
	const size_t processors = (size_t)sysconf(_SC_NPROCESSORS_CONF);

	return rp_recorder_choose_bytes(options->buffer_bytes / 2 / processors, RING_BYTES_MAX);
}

static void explain(const char *call, int error, bool without_kernel)
{
	rp_tool_error("record: %s: %s; only processes of this user are recorded%s", call,
		      strerror(-error), without_kernel ? ", without the kernel" : "");
	rp_tool_error("    all processes need root or CAP_PERFMON: sudo ringpipe record …, or "
		      "setcap " RP_RECORD_CAPABILITIES "+ep on ringpipe-record");
}

/* The memory that the kernel lets every user lock for each processor, without the ring's head. */
static size_t unprivileged_ring_bytes(void)
{
	FILE *file = fopen("/proc/sys/kernel/perf_event_mlock_kb", "re");
	size_t bytes = RP_RING_BYTES_MIN;
	unsigned long kilobytes = 0;

	if (file && fscanf(file, "%lu", &kilobytes) == 1) {
		while (bytes * 2 + (size_t)sysconf(_SC_PAGESIZE) <= kilobytes << 10)
			bytes *= 2;
	}
	if (file)
		fclose(file);
	return bytes;
}

/* Open the events of the threads in the table. `ret_is_whole`: of all threads that now exist. */
static int open_threads(struct rp_recorder *recorder, struct rp_perf_options *options,
			bool *ret_is_whole, const char **ret_call)
{
	pid_t *threads = rp_process_table_threads(recorder->processes, &options->thread_count);
	int ret;

	if (!threads)
		return -ENOMEM;
	options->threads = threads;
	ret = rp_perf_open(options, &recorder->perf, ret_call);
	free(threads);
	if (ret == 0)
		ret = rp_process_table_scan(recorder->processes, &recorder->choice);
	*ret_is_whole = rp_process_table_thread_count(recorder->processes) == options->thread_count;
	return ret;
}

/*
 * Threads inherit the events of the threads that create them. A thread that starts between the scan
 * and the opening of its creator's events inherits none of them, or those of some processors alone,
 * so all events are opened again. If threads start all the time, the events of all processes are
 * opened instead, and the recorder leaves out the records of the others. A user who may not open
 * these gets no samples of such a thread.
 */
static int open_chosen(struct rp_recorder *recorder, struct rp_perf_options *options,
		       bool by_user, const char **ret_call)
{
	bool is_whole = false;
	int ret;

	*ret_call = "/proc";
	recorder->choice = (struct rp_process_choice){
		.roots = recorder->options.roots,
		.by_user = by_user, .user = geteuid(),
	};
	recorder->scan_ns = rp_machine_time_ns();
	ret = rp_process_table_scan(recorder->processes, &recorder->choice);
	recorder->is_chosen = true;
	for (int i = 0; ret == 0 && i < RP_RECORDER_OPENINGS_MAX; i++) {
		ret = open_threads(recorder, options, &is_whole, ret_call);
		if (ret < 0 || is_whole)
			return ret;
		rp_perf_close(recorder->perf);
		recorder->perf = NULL;
	}
	if (ret < 0)
		return ret;
	options->threads = NULL;
	recorder->is_machine_wide = true;
	ret = rp_perf_open(options, &recorder->perf, ret_call);
	if (ret != -EACCES && ret != -EPERM)
		return ret;
	recorder->is_machine_wide = false;
	return open_threads(recorder, options, &is_whole, ret_call);
}

/* Open the events of the processes of this user, also those of the kernel if it permits that. */
static int open_own(struct rp_recorder *recorder, struct rp_perf_options *options,
		    const char **ret_call)
{
	int ret;

	options->ring_bytes = unprivileged_ring_bytes();
	options->stack_bytes = UNPRIVILEGED_STACK_BYTES;
	ret = open_chosen(recorder, options, true, ret_call);
	if (ret == -EACCES || ret == -EPERM) {
		options->without_kernel = true;
		ret = open_chosen(recorder, options, true, ret_call);
	}
	return ret;
}

static void report_refused_threads(const struct rp_recorder *recorder)
{
	struct rp_perf_stats stats;

	rp_perf_stats(recorder->perf, &stats);
	if (stats.refused_threads)
		rp_tool_error("record: %zu thread%s not recorded: only root may observe processes "
			      "of other users, and those that changed their user or their rights",
			      stats.refused_threads, stats.refused_threads == 1 ? " is" : "s are");
}

/* Without the right to record all processes, record those of this user. */
static int open_perf(struct rp_recorder *recorder)
{
	struct rp_perf_options options = {
		.frequency_hz = recorder->options.frequency_hz,
		.stack_bytes = STACK_BYTES,
		.ring_bytes = ring_bytes(&recorder->options),
	};
	const struct rp_proc_roots *roots = &recorder->options.roots;
	const char *call, *refused_call;
	int ret, refused;

	ret = roots->count ? open_chosen(recorder, &options, false, &call) :
	      rp_perf_open(&options, &recorder->perf, &call);
	if (ret == -EACCES || ret == -EPERM) {
		refused = ret;
		refused_call = call;
		ret = open_own(recorder, &options, &call);
		explain(refused_call, refused, options.without_kernel);
	}
	if (ret == -ESRCH && roots->count)
		rp_tool_error("record: there is no process %d", roots->processes[0].pid);
	else if (ret < 0)
		rp_tool_error("record: %s: %s", call, strerror(-ret));
	else if (!options.without_kernel && rp_functions_kernel_error(recorder->functions) < 0)
		rp_tool_error("record: the kernel shows no addresses of its functions, so they "
			      "have no names: sysctl kernel.kptr_restrict=0");
	if (ret == 0)
		report_refused_threads(recorder);
	return ret;
}

static int create_tables(struct rp_recorder *recorder)
{
	int ret = rp_images_create(&recorder->images);

	if (ret == 0)
		ret = rp_process_table_create(recorder->images, &recorder->options.filter,
					      &recorder->processes);
	return ret ? ret : rp_functions_create(&recorder->functions);
}

int rp_recorder_create(const struct rp_recorder_options *options,
		       struct rp_recorder **ret_recorder)
{
	struct rp_recorder *recorder = calloc(1, sizeof(*recorder));
	int ret;

	if (!recorder)
		return -ENOMEM;
	rp_bounded_start();
	recorder->options = *options;
	recorder->clocks.read = rp_machine_time_get;
	ret = create_tables(recorder);
	if (ret == 0)
		ret = open_perf(recorder);
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
	rp_waits_destroy(recorder->waits);
	rp_switch_waits_destroy(recorder->switch_waits);
	rp_points_destroy(recorder->tracepoints);
	rp_wait_queue_fini(&recorder->wait_queue);
	rp_record_trace_destroy(recorder->trace);
	rp_functions_destroy(recorder->functions);
	rp_process_table_destroy(recorder->processes);
	rp_images_destroy(recorder->images);
	free(recorder);
}

static int follow_clocks(struct rp_recorder *recorder, bool is_last)
{
	struct rp_clock_changes changes;
	int ret = 0;

	rp_clock_watch_pass(&recorder->clocks, is_last, &changes);
	for (size_t i = 0; ret == 0 && i < changes.reading_count; i++)
		ret = rp_record_clock(recorder->trace, &changes.readings[i]);
	if (ret == 0 && changes.suspended_ns)
		ret = rp_record_suspend(recorder->trace, changes.suspended_ns);
	return ret;
}

/*
 * The kernel records changes before this function reads /proc, so that no change is missed. Chosen
 * processes were read earlier; the second reading finds those that started meanwhile.
 */
int rp_recorder_start(struct rp_recorder *recorder)
{
	int ret = rp_record_trace_create(recorder->options.output, recorder->options.frequency_hz,
				  &recorder->trace);

	if (ret == 0)
		ret = rp_record_machine(recorder->trace);
	if (ret == 0)
		ret = follow_clocks(recorder, false);
	if (ret == 0)
		ret = rp_perf_enable(recorder->perf);
	if (ret == 0)
		ret = rp_process_table_scan(recorder->processes, &recorder->choice);
	if (ret == 0)
		ret = rp_recorder_start_waits(recorder);
	if (ret == 0)
		ret = rp_recorder_put_groups(recorder);
	recorder->named_ns = rp_machine_time_ns();
	return ret;
}

void rp_recorder_fds(const struct rp_recorder *recorder, int ret_fds[RP_RECORDER_FDS])
{
	ret_fds[0] = rp_perf_fd(recorder->perf);
	ret_fds[1] = recorder->waits ? rp_waits_fd(recorder->waits) :
		     recorder->switch_waits ? rp_switch_waits_fd(recorder->switch_waits) : -1;
	ret_fds[2] = recorder->tracepoints ? rp_points_fd(recorder->tracepoints) : -1;
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
			       RP_RECORDER_FRAMES_MAX - count, &end);
	recorder->ends[end]++;
	return count;
}

static int take_sample(struct rp_recorder *recorder, const struct rp_perf_record *record)
{
	struct rp_record_trace_place place = {
		.time_ns = record->time_ns,
		.processor = record->processor,
		.context = record->sample.context,
	};
	uint32_t count;

	if (recorder->is_machine_wide &&
	    !rp_process_table_has(recorder->processes, record->process, record->time_ns))
		return 0;
	place.thread = rp_process_table_thread(recorder->processes, record->process,
					       record->thread);
	if (!place.thread)
		return -ENOMEM;
	if (!rp_process_table_wants(recorder->processes, place.thread->process))
		return 0;
	count = collect_frames(recorder, record, place.thread->process);
	return rp_record_sample(recorder->trace, &place, record->sample.period_ns,
			       recorder->frames, count);
}

static int take_record(void *user, const struct rp_perf_record *record)
{
	struct rp_recorder *recorder = user;
	struct rp_machine_process *ended;
	int ret = rp_recorder_take_waits(recorder, record->time_ns);

	if (ret < 0)
		return ret;
	if (record->kind == RP_PERF_SAMPLE)
		return take_sample(recorder, record);
	/* The process does not descend from a chosen one, whose id it may have. */
	if (recorder->is_machine_wide && record->kind == RP_PERF_START &&
	    !rp_process_table_has(recorder->processes, record->start.process, record->time_ns)) {
		rp_process_table_detach(recorder->processes, record->process, record->time_ns);
		return 0;
	}
	if (record->kind == RP_PERF_NAME && record->name.is_exec)
		ret = rp_recorder_leave_program(recorder, record->process);
	if (ret < 0)
		return ret;
	ret = rp_process_table_follow(recorder->processes, record, &ended);
	if (ret == 0 && ended) {
		rp_recorder_forget_contexts(recorder, ended);
		ret = rp_record_process_end(recorder->trace, ended, record->time_ns);
	}
	return ret;
}

const char *rp_recorder_loss_text(enum rp_recorder_loss loss)
{
	static const char *const texts[RP_RECORDER_LOSS_COUNT] = {
		[RP_RECORDER_RING_FULL] = "ring of perf_events full",
		[RP_RECORDER_RECORD_DAMAGED] = "damaged record of perf_events",
		[RP_RECORDER_WAITS_FULL] = "ring of BPF programs full",
		[RP_RECORDER_SWITCHES_FULL] = "ring of switches full",
		[RP_RECORDER_POINTS_FULL] = "ring of tracepoints full",
		[RP_RECORDER_WAITS_MEMORY] = "no memory for the state of a thread",
	};

	return texts[loss];
}

static void count_losses(const struct rp_recorder *recorder,
			 uint64_t ret_lost[RP_RECORDER_LOSS_COUNT])
{
	const struct rp_waits *waits = recorder->waits;
	struct rp_perf_stats stats;

	rp_perf_stats(recorder->perf, &stats);
	ret_lost[RP_RECORDER_RING_FULL] = stats.lost[RP_PERF_LOSS_FULL];
	ret_lost[RP_RECORDER_RECORD_DAMAGED] = stats.lost[RP_PERF_LOSS_DAMAGED];
	ret_lost[RP_RECORDER_WAITS_FULL] = waits ? rp_waits_lost(waits, RP_WAIT_LOSS_FULL) : 0;
	ret_lost[RP_RECORDER_SWITCHES_FULL] = recorder->switch_waits ?
					      rp_switch_waits_lost(recorder->switch_waits) : 0;
	ret_lost[RP_RECORDER_POINTS_FULL] = recorder->tracepoints ?
					    rp_points_lost(recorder->tracepoints) : 0;
	ret_lost[RP_RECORDER_WAITS_MEMORY] = waits ? rp_waits_lost(waits, RP_WAIT_LOSS_STATE) : 0;
}

/* Put the new losses of each reason, and get the sum of all losses. */
static int put_losses(struct rp_recorder *recorder, uint64_t *ret_total)
{
	uint64_t lost[RP_RECORDER_LOSS_COUNT];
	int ret = 0;

	*ret_total = 0;
	count_losses(recorder, lost);
	for (int i = 0; ret == 0 && i < RP_RECORDER_LOSS_COUNT; i++) {
		if (lost[i] != recorder->reported[i])
			ret = rp_record_loss(recorder->trace,
					     rp_recorder_loss_text((enum rp_recorder_loss)i),
					     lost[i] - recorder->reported[i]);
		recorder->reported[i] = lost[i];
		*ret_total += lost[i];
	}
	return ret;
}

/*
 * Begin or continue to name the functions that were not looked up yet. `limit_ns`: the trace has
 * the records before it. `ending`: as of rp_functions_step().
 */
static int name_functions(struct rp_recorder *recorder, uint64_t limit_ns,
			  struct rp_stop_requests *ending)
{
	bool is_done;
	int ret = recorder->is_naming ? 0 :
		  rp_functions_take(recorder->functions, recorder->trace);

	if (ret == 0)
		ret = rp_functions_step(recorder->functions, recorder->trace, ending, &is_done);
	if (ret)
		return ret;
	recorder->is_naming = !is_done;
	if (!is_done)
		return 0;
	recorder->named_ns = rp_machine_time_ns();
	rp_process_table_forget(recorder->processes, limit_ns > RP_PROCESS_END_NS ?
				 limit_ns - RP_PROCESS_END_NS : 0);
	/* The symbols of large files have left much free memory between what is in use. */
	(void)malloc_trim(0);
	return 0;
}

/* Name all functions, of which some may have to wait for others. */
static int name_all(struct rp_recorder *recorder)
{
	struct rp_stop_requests *ending = recorder->options.stop_requests;
	int ret = recorder->is_naming ? name_functions(recorder, UINT64_MAX, ending) : 0;

	return ret ? ret : name_functions(recorder, UINT64_MAX, ending);
}

static int drain_part(struct rp_recorder *recorder, uint64_t limit_ns)
{
	int ret = 0;

	recorder->part_bytes = 0;
	recorder->part_ns = UINT64_MAX;
	if (recorder->waits)
		ret = rp_waits_drain(recorder->waits);
	else if (recorder->switch_waits)
		ret = rp_switch_waits_drain(recorder->switch_waits, limit_ns == UINT64_MAX);
	if (ret >= 0 && recorder->tracepoints)
		ret = rp_points_drain(recorder->tracepoints, limit_ns == UINT64_MAX);
	if (limit_ns > recorder->part_ns)
		limit_ns = recorder->part_ns;
	if (ret >= 0)
		ret = rp_perf_drain(recorder->perf, limit_ns, take_record, recorder);
	return ret ? ret : rp_recorder_take_waits(recorder, limit_ns);
}

/*
 * Put the records before `limit_ns` into the trace. The drain takes all records that the rings had
 * at `drain_end_ns`. This time is after the limit, so later drains find no record before the limit.
 */
static int drain(struct rp_recorder *recorder, uint64_t limit_ns, uint64_t drain_end_ns)
{
	int ret;

	recorder->drain_end_ns = drain_end_ns;
	do
		ret = drain_part(recorder, limit_ns);
	while (ret == 0 && recorder->part_ns != UINT64_MAX);
	return ret;
}

int rp_recorder_pass(struct rp_recorder *recorder)
{
	uint64_t limit_ns = rp_perf_limit(recorder->perf), lost = 0;
	int ret = drain(recorder, limit_ns, rp_machine_time_ns());

	if (ret == 0 && (recorder->is_naming ||
			 rp_machine_time_ns() - recorder->named_ns > NAMES_NS))
		ret = name_functions(recorder, limit_ns, NULL);
	if (ret == 0)
		ret = rp_recorder_read_contexts(recorder, false);
	if (ret == 0)
		ret = put_losses(recorder, &lost);
	if (ret == 0)
		ret = follow_clocks(recorder, false);
	return ret ? ret : rp_record_flush(recorder->trace, limit_ns, lost);
}

static void report_missing_workers(void)
{
	if (rp_bounded_is_missing())
		rp_tool_error("record: the processes that read files and memory of others did not "
			      "run, so names of functions and trace ids may be missing");
}

void rp_recorder_stop(struct rp_recorder *recorder)
{
	rp_perf_disable(recorder->perf);
	if (recorder->waits)
		rp_waits_stop(recorder->waits);
	if (recorder->switch_waits)
		rp_switch_waits_stop(recorder->switch_waits);
	if (recorder->tracepoints)
		rp_points_stop(recorder->tracepoints);
}

int rp_recorder_finish(struct rp_recorder *recorder)
{
	uint64_t lost = 0;
	int ret;

	(void)rp_perf_limit(recorder->perf);
	ret = drain(recorder, UINT64_MAX, UINT64_MAX);
	if (ret == 0)
		ret = rp_recorder_read_contexts(recorder, true);
	rp_scheduling_reset();
	if (ret == 0)
		ret = name_all(recorder);
	report_missing_workers();
	if (ret == 0)
		ret = put_losses(recorder, &lost);
	if (ret == 0)
		ret = follow_clocks(recorder, true);
	return ret ? ret : rp_record_end(recorder->trace, rp_machine_time_ns(), lost);
}

const struct rp_images *rp_recorder_images(const struct rp_recorder *recorder)
{
	return recorder->images;
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
		.calls = trace.calls,
		.futex_waits = trace.futex_waits,
		.faults = trace.faults,
		.requests = trace.requests,
		.interrupts = trace.interrupts,
		.suspended_ns = trace.suspended_ns,
		.processes = trace.processes,
		.functions = trace.functions,
		.late = perf.late,
		.whole_stacks = recorder->ends[RP_WALK_OUTERMOST],
		.cut_stacks = recorder->ends[RP_WALK_COPY_END] +
			      recorder->ends[RP_WALK_NO_RULES] +
			      recorder->ends[RP_WALK_FRAMES_MAX],
		.bytes = trace.bytes,
		.memory_bytes = perf.memory_bytes,
	};
	count_losses(recorder, ret_stats->lost);
}
