/* SPDX-License-Identifier: MIT */
/*
 * The part of the recorder that starts the sources of waits and of the groups of --kernel: BPF
 * programs, or tracepoints where the kernel refuses them.
 */
#include "tools/ringpipe-record/recorder_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/tool.h"
#include "tools/client/machine_time.h"

#define WAITS_BYTES_MAX (256u << 20)

/*
 * A drain copies up to PART_BYTES of a ring before it puts the copies into the trace, so that the
 * memory of the copies does not depend on the size of the ring. A record may get into a ring up to
 * LATE_NS after later records: a thread may be preempted before it stores a record of its system
 * call.
 */
#define PART_BYTES (4u << 20)
#define LATE_NS 20000000ull

/*
 * A busy machine may fill the ring as fast as a drain empties it. The ring has the records in the
 * order in which the kernel stored them. A record that ended after the drain began comes after all
 * records that the ring had then, so it ends the drain. Return: 0; 1: the drain ends, or a part of
 * it; -ENOMEM.
 */
static int queue_wait(void *user, const struct rp_wait_record *record)
{
	struct rp_recorder *recorder = user;
	const int ret = rp_wait_queue_add(&recorder->wait_queue, record);

	if (ret < 0 || record->time_ns >= recorder->drain_end_ns)
		return ret < 0 ? ret : 1;
	recorder->part_bytes += rp_wait_record_bytes(record);
	if (recorder->part_bytes < PART_BYTES)
		return 0;
	recorder->part_bytes = 0;
	if (record->time_ns - LATE_NS < recorder->part_ns)
		recorder->part_ns = record->time_ns - LATE_NS;
	return 1;
}

static const struct {
	unsigned int group;
	const char *name, *text;
} group_names[] = {
	{ RP_WAITS_CALLS, "syscalls", "system calls" },
	{ RP_WAITS_FUTEX, "futex", "futexes" },
	{ RP_WAITS_FAULTS, "faults", "page faults" },
	{ RP_WAITS_BLOCK, "block", "block requests" },
	{ RP_WAITS_INTERRUPTS, "irq", "interrupts" },
};

#define GROUPS_WITH_STACKS (RP_WAITS_CALLS | RP_WAITS_FUTEX | RP_WAITS_FAULTS)

#define GROUP_COUNT (sizeof(group_names) / sizeof(group_names[0]))

/* Put the groups into words: "page faults, block requests and interrupts". */
static const char *list_groups(unsigned int groups, const char *last, char *text, size_t space)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < GROUP_COUNT && used < space; i++) {
		const unsigned int later = groups >> 1 & ~(group_names[i].group - 1);

		if (!(groups & group_names[i].group))
			continue;
		used += (size_t)snprintf(text + used, space - used, "%s%s", used == 0 ? "" :
					 later ? ", " : last, group_names[i].text);
	}
	return text;
}

/* Open the tracepoints of these threads, or of all threads, in the place of those before. */
static int open_points(struct rp_recorder *recorder, const struct rp_waits_options *options,
		       const pid_t *threads, size_t count, unsigned int *ret_groups)
{
	struct rp_waits_options own = *options;

	rp_points_destroy(recorder->tracepoints);
	recorder->tracepoints = NULL;
	*ret_groups = 0;
	own.threads = threads;
	own.thread_count = count;
	return rp_points_start(&own, queue_wait, recorder, &recorder->tracepoints, ret_groups);
}

/* As open_points(), of the threads in the table. `ret_is_whole`: of all threads that now exist. */
static int open_thread_points(struct rp_recorder *recorder, const struct rp_waits_options *options,
			      bool *ret_is_whole, unsigned int *ret_groups)
{
	size_t count;
	pid_t *threads = rp_process_table_threads(recorder->processes, &count);
	int ret;

	if (!threads)
		return -ENOMEM;
	ret = open_points(recorder, options, threads, count, ret_groups);
	free(threads);
	if (ret == 0)
		ret = rp_process_table_scan(recorder->processes, &recorder->choice);
	*ret_is_whole = rp_process_table_thread_count(recorder->processes) == count;
	return ret;
}

/* Open the tracepoints of the chosen threads, as open_chosen() opens their other events. */
static int start_points(struct rp_recorder *recorder, const struct rp_waits_options *options,
			unsigned int *ret_groups)
{
	const bool is_by_thread = recorder->is_chosen && !recorder->is_machine_wide;
	bool is_whole;
	int ret;

	for (int i = 0; is_by_thread && i < RP_RECORDER_OPENINGS_MAX; i++) {
		ret = open_thread_points(recorder, options, &is_whole, ret_groups);
		if (ret < 0 || is_whole)
			return ret;
	}
	ret = open_points(recorder, options, NULL, 0, ret_groups);
	if (!is_by_thread || (ret != -EACCES && ret != -EPERM))
		return ret;
	return open_thread_points(recorder, options, &is_whole, ret_groups);
}

/* Record by tracepoints what they have, and report which groups are missing. 0; -ENOMEM. */
static int start_tracepoints(struct rp_recorder *recorder, const struct rp_waits_options *options,
			     const char *cause, const char *hint)
{
	unsigned int groups = 0;
	char text[128];
	int ret = start_points(recorder, options, &groups);

	if (ret == -ENOMEM)
		return ret;
	recorder->groups = groups;
	if (groups)
		rp_tool_error("record: %s come from tracepoints%s: %s%s",
			      list_groups(groups, " and ", text, sizeof(text)),
			      groups & GROUPS_WITH_STACKS ? ", with less of their stacks" : "",
			      cause, hint);
	groups = options->groups & ~groups;
	if (groups)
		rp_tool_error("record: no %s are recorded: %s%s%s%s",
			      list_groups(groups, " or ", text, sizeof(text)), cause, hint,
			      ret < 0 ? "; tracepoints: " : "", ret < 0 ? strerror(-ret) : "");
	return 0;
}

/*
 * Without BPF, the recording lacks the groups that only BPF programs record, and knows less about
 * waits and the other groups. Other users than root may not see the kernel's switches either.
 */
static int start_without_bpf(struct rp_recorder *recorder, const struct rp_waits_options *options,
			     int error)
{
	const char *cause = error == -EOPNOTSUPP ? "this needs libbpf, and a kernel with BPF and "
			    "type information (/sys/kernel/btf/vmlinux)" : strerror(-error);
	const char *hint = error == -EPERM || error == -EACCES ?
			   "; BPF programs need root, or CAP_BPF and CAP_PERFMON" : "";
	int ret = 0;

	if (!options->without_waits && !recorder->is_chosen)
		ret = rp_switch_waits_start(options, queue_wait, recorder,
					    &recorder->switch_waits);
	if (recorder->switch_waits)
		rp_tool_error("record: waits have the kernel's stack alone, and no waker: %s%s",
			      cause, hint);
	else if (!options->without_waits && ret != -ENOMEM)
		rp_tool_error("record: no waits are recorded: %s%s%s%s", cause, hint,
			      ret < 0 ? "; perf_events: " : "", ret < 0 ? strerror(-ret) : "");
	if (ret == -ENOMEM || !options->groups)
		return ret == -ENOMEM ? ret : 0;
	return start_tracepoints(recorder, options, cause, hint);
}

/* This answer is not kept: the process may change its user or cgroup before it has a record. */
static bool wants(void *context, pid_t process)
{
	const struct rp_recorder *recorder = context;

	if (recorder->is_chosen && !rp_process_table_has(recorder->processes, process,
							   rp_machine_time_ns()))
		return false;
	return rp_proc_matches(process, &recorder->options.filter) != 0;
}

size_t rp_recorder_choose_bytes(size_t share, size_t max)
{
	size_t bytes = RP_RING_BYTES_MIN;

	while (bytes * 2 <= share && bytes < max)
		bytes *= 2;
	return bytes;
}

int rp_recorder_start_waits(struct rp_recorder *recorder)
{
	const struct rp_proc_filter *filter = &recorder->options.filter;
	const bool by_owner = filter->by_user || filter->cgroup;
	const struct rp_waits_options options = {
		.threshold_ns = recorder->options.wait_ns,
		.ring_bytes = rp_recorder_choose_bytes(recorder->options.buffer_bytes / 2,
						       WAITS_BYTES_MAX),
		.groups = recorder->options.groups,
		.without_waits = recorder->options.without_waits,
		.wants = recorder->is_chosen || by_owner ? wants : NULL,
		.context = recorder,
		.by_owner = by_owner,
		.since_ns = recorder->is_chosen ? recorder->scan_ns : UINT64_MAX,
	};
	int ret;

	recorder->groups = options.groups;
	ret = rp_waits_start(&options, queue_wait, recorder, &recorder->waits);
	rp_recorder_attach_contexts(recorder);
	if (ret == 0 || ret == -ENOMEM)
		return ret;
	if (options.without_waits && !options.groups)
		return 0;
	recorder->groups = 0;
	return start_without_bpf(recorder, &options, ret);
}

int rp_recorder_put_groups(struct rp_recorder *recorder)
{
	const bool has_waits = (recorder->waits && !recorder->options.without_waits) ||
			       recorder->switch_waits;
	char groups[64];
	size_t used = (size_t)snprintf(groups, sizeof(groups), "%s", has_waits ? "sched" : "");

	for (size_t i = 0; i < GROUP_COUNT; i++) {
		if (recorder->groups & group_names[i].group)
			used += (size_t)snprintf(groups + used, sizeof(groups) - used, "%s%s",
						 used ? "," : "", group_names[i].name);
	}
	return rp_record_groups(recorder->trace, groups, recorder->options.wait_ns);
}
