/* SPDX-License-Identifier: MIT */
/*
 * The files of a tree are merged when all recorders have ended, because the stream of an idle
 * process does not show its current time. A recording of the machine is merged while it is made,
 * HOLD_NS after the time of its events: a process sends its events within 100 ms.
 */
#include "tools/client/tree_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli/display_text.h"
#include "tools/cli/signals.h"
#include "tools/cli/tool.h"
#include "tools/client/machine_time.h"

#define MERGE_MS 250
#define HOLD_NS 2000000000u
#define SEARCH_MS 100			/* between two searches for the threads of a process */

/* Whether the member is part of the file. A process that ended before it could be asked is not. */
static bool is_part(const struct rp_tree_member *member)
{
	return member->spool_fd >= 0 &&
	       (member->end != '0' + RP_RECORDING_FAILED ||
		rp_proc_runs(member->pid, member->start_time));
}

static int keep_thread(uint64_t inner, pid_t thread, void *data)
{
	struct rp_tree_member *member = data;
	struct rp_thread_slot *slot;

	if (rp_thread_table_add(&member->threads, inner, &slot) < 0)
		return -ENOMEM;
	/* Linux has ids of up to 22 bits. */
	slot->index = (uint32_t)thread & 0x3fffffff;
	return 0;
}

/*
 * Find the id of a thread of a process in a pid namespace. The namespace's id stays if the thread
 * ended before its first event was merged. A new id is searched in all threads that now exist, so
 * another new one in the next SEARCH_MS is of a thread that has ended.
 */
static uint64_t find_thread(void *user, uint64_t inner)
{
	struct rp_tree_member *member = user;
	struct rp_thread_slot *slot;
	int64_t now_ms;

	if (inner == (uint64_t)member->inner_pid)
		return (uint64_t)member->pid;
	slot = rp_thread_table_find(&member->threads, inner);
	if (slot)
		return slot->index;
	now_ms = rp_now_ms();
	if (now_ms >= member->search_ms && rp_proc_runs(member->pid, member->start_time)) {
		(void)rp_proc_threads(member->pid, keep_thread, member);
		member->search_ms = now_ms + SEARCH_MS;
		slot = rp_thread_table_find(&member->threads, inner);
	}
	if (!slot)
		(void)keep_thread(inner, (pid_t)inner, member);
	return slot ? slot->index : inner;
}

void rp_tree_merge_add(struct rp_tree *tree, struct rp_tree_member *member)
{
	int ret;

	if (member->is_part)
		return;
	member->source = (struct rp_trace_merge_source){
		.fd = member->spool_fd, .pid = member->pid, .parent = member->parent,
		.inner_pid = member->inner_pid, .container = member->container,
		.name = member->target.name, .command_line = member->target.command_line,
		.is_new = member->is_new, .replaces = member->execs > 0 || member->first,
	};
	if (member->inner_pid && member->inner_pid != member->pid) {
		member->source.find_thread = find_thread;
		member->source.find_user = member;
	}
	/* In a time namespace, the process's clock is ahead of the machine's by a fixed time. */
	if (member->clock_offset_ns) {
		static const struct rp_machine_clock machine;

		member->source.clock.ns = (uint64_t)member->clock_offset_ns;
		member->source.trace_clock = &machine;
	}
	ret = rp_trace_merge_add(tree->merge, &member->source);
	member->is_part = ret == 0;
	if (ret < 0)
		tree->error = ret;
}

/* A process may exit after the end of its stream. */
static void complete_part(struct rp_tree_member *member, bool is_last)
{
	bool is_exited = !rp_proc_runs(member->pid, member->start_time) && !member->replaced;

	if (!is_exited && !member->replaced && !is_last)
		return;
	/* The first member states the end of the process. */
	member->source.exited = is_exited && !member->first;
	member->source.is_complete = true;
}

/* There may be more short processes than this one may have open files. */
static void close_spool(struct rp_tree_member *member)
{
	bool is_done = member->is_part ? member->source.is_done :
		       member->status_fd < 0 && member->end != RP_TREE_NO_END && !is_part(member);

	if (member->spool_fd < 0 || !is_done)
		return;
	close(member->spool_fd);
	member->spool_fd = -1;
}

/* The processor time of a process without its children; 0: it has ended. */
static uint64_t process_cpu_ns(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
		return 0;
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* The processor time of the recorders that have ended. */
static uint64_t children_cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_CHILDREN, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
}

void rp_tree_merge_pass(struct rp_tree *tree)
{
	uint64_t events = 0, lost = 0, cpu_ns;
	int ret;

	if (!tree->plan->machine || rp_now_ms() < tree->next_merge_ms)
		return;
	for (size_t i = 0; i < tree->count; i++) {
		struct rp_tree_member *member = tree->members[i];

		if (member->is_part && member->status_fd < 0 && !member->source.is_complete)
			complete_part(member, false);
	}
	ret = rp_trace_merge_pass(tree->merge, rp_machine_time_ns() - HOLD_NS);
	/* The caller stops the recording, and then the merge has the space that it frees. */
	if (rp_output_is_full(ret))
		tree->plan->progress->error = ret;
	else if (ret < 0)
		tree->error = ret;
	cpu_ns = process_cpu_ns(getpid()) + children_cpu_ns();
	for (size_t i = 0; i < tree->count; i++) {
		events += tree->members[i]->is_part ? tree->members[i]->source.events : 0;
		lost += tree->members[i]->is_part ? tree->members[i]->source.lost : 0;
		cpu_ns += tree->members[i]->status_fd >= 0 ?
			  process_cpu_ns(tree->members[i]->recorder) : 0;
		close_spool(tree->members[i]);
	}
	tree->plan->progress->events = events;
	tree->plan->progress->lost = lost;
	tree->plan->progress->cpu_ns = cpu_ns;
	tree->next_merge_ms = rp_now_ms() + MERGE_MS;
}

/* Return: whether the part is listed. */
static bool report_part(const struct rp_tree_member *member, bool whole)
{
	if (whole && member->end != '0' + RP_RECORDING_OUTPUT_FAILED)
		return false;
	switch (member->end - '0') {
	case RP_RECORDING_PEER_ENDED:
		rp_tool_error("process %d ended %s", member->pid, member->begun ?
			      "before it completed its part; the trace has its events up to then" :
			      "before it sent anything");
		break;
	case RP_RECORDING_FAILED:
		rp_tool_error("process %d could not be traced", member->pid);
		break;
	case RP_RECORDING_OUTPUT_FAILED:
		rp_tool_error("no space to record process %d; its part ends there", member->pid);
		break;
	default:
		rp_tool_error("process %d did not end its part; the trace has its first events",
			      member->pid);
	}
	return true;
}

static void report_late(const struct rp_tree_member *member)
{
	char count[RP_TEXT_MAX];

	if (member->source.late)
		rp_tool_error("process %d: %s arrived too late, and the trace states a later "
			      "time", member->pid,
			      rp_text_counted(member->source.late, "event", count));
}

/* Write the rest of the trace. */
static int merge_rest(struct rp_tree *tree, struct rp_recording_result *result)
{
	int ret;

	for (size_t i = 0; i < tree->count; i++) {
		struct rp_tree_member *member = tree->members[i];

		if (is_part(member))
			rp_tree_merge_add(tree, member);
		if (member->is_part && !member->source.is_complete)
			complete_part(member, true);
	}
	ret = tree->error ? tree->error : rp_trace_merge_finish(tree->merge);
	for (size_t i = 0; i < tree->count; i++) {
		const struct rp_tree_member *member = tree->members[i];

		if (!member->is_part)
			continue;
		result->events += member->source.events;
		result->lost += member->source.lost;
		if (ret < 0)
			continue;
		result->cut |= report_part(member, member->source.whole);
		report_late(member);
	}
	rp_trace_merge_find_losses(tree->merge, &result->losses);
	return ret;
}

void rp_tree_merge_finish(struct rp_tree *tree, struct rp_recording_result *result)
{
	struct rp_output *output = tree->output;
	struct stat stat;
	int ret = tree->plan->machine ? 0 : rp_output_begin(output);

	if (!ret)
		ret = merge_rest(tree, result);
	result->bytes = fstat(output->fd, &stat) || !S_ISREG(stat.st_mode) ? 1 :
			(uint64_t)stat.st_size;
	result->end = tree->stops > 1 ? RP_RECORDING_GAVE_UP : RP_RECORDING_STOPPED;
	if (ret == -ENODATA) {
		result->bytes = 0;
	} else if (ret == -ECANCELED && tree->stops > 1) {
		rp_tool_error("cancelled; the trace may stop before its end");
	} else if (ret == -ECANCELED) {
		result->end = RP_RECORDING_CANCELLED;
		rp_output_report_unread(output);
	} else if (ret) {
		result->end = RP_RECORDING_OUTPUT_FAILED;
		if (tree->plan->machine && ret != -ENOMEM)
			tree->plan->progress->error = ret;
		else
			rp_tool_error("cannot write %s: %s", output->path, strerror(-ret));
	}
}

int rp_tree_merge_start(struct rp_tree *tree)
{
	const struct rp_recording_plan *plan = tree->plan;
	const pid_t pid = plan->machine ? getpid() : plan->target->pid;
	int ret = rp_trace_merge_create(pid, plan->format, tree->output, &tree->merge);

	if (ret < 0 || !plan->machine)
		return ret;
	rp_trace_merge_watch(tree->merge, plan->until, &plan->progress->has_until);
	tree->machine = (struct rp_trace_merge_source){
		.fd = plan->machine_fd, .states_progress = true,
	};
	return rp_trace_merge_add(tree->merge, &tree->machine);
}
