/* SPDX-License-Identifier: MIT */
/* ringpipe collect: makes a plan from the options, records, and prints a summary. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/reader.h>
#include <ringpipe/session.h>

#include "base/text.h"
#include "tools/client/child.h"
#include "tools/client/proc.h"
#include "tools/ringpipe/kernel_program.h"
#include "tools/client/providers.h"
#include "tools/client/recording.h"
#include "tools/trace/summary.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"
#include "tools/client/tree.h"

static bool is_reported(const struct rp_summary *summary, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (!strcmp(summary->losses[i]->reason, summary->losses[index]->reason))
			return true;
	}
	return false;
}

/*
 * Prints " (5 full, 2 blocked)": each reason summed over all rings; nothing if no event was lost.
 */
static void print_reasons(const struct rp_summary *summary)
{
	const char *before = " (";

	for (size_t i = 0; i < summary->loss_count; i++) {
		char text[RP_TEXT_MAX], *reason;
		uint64_t count = 0;

		if (is_reported(summary, i))
			continue;
		for (size_t k = i; k < summary->loss_count; k++) {
			if (!strcmp(summary->losses[k]->reason, summary->losses[i]->reason))
				count += summary->losses[k]->count;
		}
		reason = rp_text_clean(summary->losses[i]->reason, true);
		fprintf(stderr, "%s%s %s", before, rp_text_count(count, text),
			reason ? reason : "?");
		free(reason);
		before = ", ";
	}
	fputs(*before == ',' ? ")" : "", stderr);
}

static void print_result(struct rp_summary *summary, const struct rp_summary_view *view,
			 const struct rp_tool_options *options)
{
	char events[RP_TEXT_MAX], lost[RP_TEXT_MAX], bytes[RP_TEXT_MAX], time[RP_TEXT_MAX];
	uint64_t ns = summary->last_ns > 0 ? (uint64_t)summary->last_ns : 0;

	if (options->format != RP_FORMAT_TEXT)
		rp_summary_print(summary, view, options->format);
	if (options->format != RP_FORMAT_TEXT || options->given & RP_OPTION_QUIET)
		return;
	/* Standard output belongs to the command after "--". */
	fprintf(stderr, "%s: %s in %s, %s lost", view->path,
		rp_text_counted(summary->stats.events, "event", events), rp_text_duration(ns, time),
		rp_text_count(summary->stats.lost, lost));
	print_reasons(summary);
	fprintf(stderr, ", %s\n", rp_text_bytes(summary->stats.bytes, bytes));
}

/* Providers that a command lacks, as its trace reports them. */
struct missing {
	const struct rp_recording_plan *plan;
	bool found;
};

/* Code units of the UTF-16 text at `at`, which ends with a NUL; SIZE_MAX: it does not. */
static size_t count_units(const struct rp_reader_event *event, size_t at)
{
	const char *payload = event->payload;

	for (size_t units = 0; at + units * 2 + 2 <= event->payload_bytes; units++) {
		if (!payload[at + units * 2] && !payload[at + units * 2 + 1])
			return units;
	}
	return SIZE_MAX;
}

/* Payload of ProviderMissing: UTF-16 provider, UTF-16 existing ones. */
static int read_missing(const struct rp_reader_event *event, void *data)
{
	struct missing *missing = data;
	size_t units, existing_units;
	char *provider, *existing;

	if (strcmp(event->type->name, "ProviderMissing") != 0 ||
	    strcmp(event->type->provider, "ringpipe") != 0)
		return 0;
	units = count_units(event, 0);
	if (units == SIZE_MAX)
		return 0;
	existing_units = count_units(event, (units + 1) * 2);
	if (existing_units == SIZE_MAX)
		return 0;
	missing->found = true;
	provider = rp_text_from_utf16(event->payload, units);
	existing = rp_text_from_utf16((const char *)event->payload + (units + 1) * 2,
				      existing_units);
	rp_providers_explain(missing->plan->target->pid, provider ? provider : "?",
			     !existing ? "?" : *existing ? existing : "none");
	free(provider);
	free(existing);
	return 0;
}

/*
 * Reads the file back, so that the summary describes what a reader will find in it. `missing` may
 * be NULL. Return: 0 if the file is complete; -ENODATA if it stops before its end; another -errno.
 */
static int check_trace(const char *path, const struct rp_tool_options *options,
		       struct missing *missing)
{
	struct rp_reader *reader;
	struct rp_summary summary;
	struct rp_summary_view view = { .path = path, .top = UINT64_MAX };
	int ret = rp_reader_open(path, &reader);

	if (ret)
		return ret;
	ret = rp_summary_read(reader, missing ? read_missing : NULL, missing, &summary);
	if (ret == -ENODATA)
		view.error = "stops before its end";
	else if (ret)
		view.error = rp_reader_error(reader);
	print_result(&summary, &view, options);
	rp_summary_fini(&summary);
	rp_reader_close(reader);
	return ret;
}

/* Read the copy of a stream that went to a pipe. The stream itself was checked by its reader. */
static void check_copy(struct rp_output *output, struct missing *missing)
{
	struct rp_reader *reader;
	struct rp_summary summary;

	if (!output->copy_fd || lseek(output->copy_fd, 0, SEEK_SET) != 0 ||
	    rp_reader_open_fd(output->copy_fd, &reader) != 0)
		return;
	(void)rp_summary_read(reader, read_missing, missing, &summary);
	rp_summary_fini(&summary);
	rp_reader_close(reader);
}

static int finish_recording(const struct rp_recording_plan *plan, struct rp_output *output,
			    const struct rp_recording_result *result,
			    const struct rp_tool_options *options)
{
	int ret = rp_output_close(output), status = RP_EXIT_OK;
	struct missing missing = { .plan = plan, .found = result->missing };
	bool reads_missing = plan->report_missing && !result->missing;

	if (ret) {
		rp_tool_error("cannot write %s: %s", output->path, strerror(-ret));
		status = RP_EXIT_FAILURE;
	}
	ret = output->regular ?
	      check_trace(output->path, options, reads_missing ? &missing : NULL) : 0;
	if (reads_missing && !output->regular)
		check_copy(output, &missing);
	rp_output_drop_copy(output);
	if (result->end == RP_RECORDING_GAVE_UP)
		return RP_EXIT_GAVE_UP;
	if (result->end == RP_RECORDING_OUTPUT_FAILED ||
	    result->end == RP_RECORDING_STREAM_FAILED || result->end == RP_RECORDING_CANCELLED)
		return RP_EXIT_FAILURE;
	if (ret == 0 && result->end == RP_RECORDING_PEER_ENDED && !plan->child &&
	    !(options->given & RP_OPTION_QUIET))
		fprintf(stderr, "Process %d ended the session.\n", plan->target->pid);
	if (ret == 0)
		return result->cut || missing.found ? RP_EXIT_FAILURE : status;
	if (ret == -ENODATA && result->end == RP_RECORDING_PEER_ENDED && plan->child)
		rp_tool_error("%s: the trace stops before its end: %s did not end by exit() or by "
			      "returning from main()", output->path, options->operands[0]);
	else if (ret == -ENODATA && result->end == RP_RECORDING_PEER_ENDED)
		rp_tool_error("process %d ended before it completed the trace; %s has the events "
			      "up to then", plan->target->pid, output->path);
	else if (ret == -ENODATA)
		rp_tool_error("process %d closed the trace before its end; %s has the events up to "
			      "then", plan->target->pid, output->path);
	else
		rp_tool_error("%s: process %d sent an invalid trace: %s", output->path,
			      plan->target->pid, strerror(-ret));
	return RP_EXIT_FAILURE;
}

static int record(const struct rp_recording_plan *plan, const struct rp_tool_options *options)
{
	struct rp_recording_result result;
	struct rp_output output;
	char *pattern = rp_output_pattern(options->output, plan->target->name, "nettrace");
	char *path = pattern ? rp_text_expand_pid(pattern, plan->target->pid) : NULL;
	int status = RP_EXIT_FAILURE;
	bool has_reader;

	free(pattern);
	if (!path) {
		rp_tool_error("out of memory");
		return RP_EXIT_FAILURE;
	}
	if (rp_output_open(&output, path, options->given & RP_OPTION_FORCE)) {
		free(path);
		return RP_EXIT_FAILURE;
	}
	if (plan->child && plan->report_missing && !plan->tree && !output.regular)
		rp_output_copy(&output, rp_target_directory());
	/* At the limit of the file size, write(2) then fails, and this process survives. */
	signal(SIGXFSZ, SIG_IGN);
	/* With a command, this process still removes the command's port. */
	if (options->kernel || plan->child)
		signal(SIGPIPE, SIG_IGN);
	if (options->kernel)
		rp_kernel_start(&output, plan->target->pid, options->kernel, options->buffer_mb);
	if (plan->live)
		rp_tool_say(stderr, "Tracing process %d (%s)%s into %s", plan->target->pid,
			    plan->target->name,
			    plan->tree ? " and its descendants" : "", output.path);
	if (plan->tree)
		rp_tree_run(plan, &output, &result);
	else
		rp_recording_run(plan, &output, &result);
	has_reader = rp_output_has_reader(&output);
	if (result.end != RP_RECORDING_FAILED && result.bytes > 0) {
		status = finish_recording(plan, &output, &result, options);
	} else {
		rp_output_discard(&output);
		if (result.end == RP_RECORDING_GAVE_UP)
			status = RP_EXIT_GAVE_UP;
		else if (result.end == RP_RECORDING_STOPPED ||
			 result.end == RP_RECORDING_PEER_ENDED)
			rp_tool_error("process %d closed the trace before it sent a byte",
				      plan->target->pid);
	}
	if (result.end == RP_RECORDING_CANCELLED && !has_reader)
		status = RP_EXIT_NO_READER;
	free(path);
	return status;
}

static int plan_recording(const struct rp_tool_options *options, struct rp_recording_plan *plan)
{
	struct rp_session_provider *providers;

	if (rp_recording_providers(options, "collect", &providers, &plan->provider_count))
		return -EINVAL;
	plan->providers = providers;
	plan->buffer_mb = options->buffer_mb;
	plan->format = options->nettrace;
	plan->block_ms = options->block_ms;
	plan->coarse = options->given & RP_OPTION_COARSE;
	plan->stacks = options->given & RP_OPTION_STACKS;
	plan->rundown = plan->stacks ||
			rp_recording_has_sampler(providers, plan->provider_count);
	plan->duration_ms = options->duration_ms;
	plan->tree = options->given & RP_OPTION_TREE;
	return 0;
}

static bool is_to_stdout(const struct rp_tool_options *options)
{
	return options->output && strcmp(options->output, "-") == 0;
}

/* Keep the targets that are descendants of the process. */
static void keep_descendants(struct rp_target_list *list, const struct rp_proc *process)
{
	const struct rp_proc_roots roots = { .processes = process, .count = 1 };
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct rp_target *row = &list->rows[i];

		if (row->pid != process->pid && rp_proc_descends(row->pid, &roots))
			list->rows[kept++] = *row;
		else
			rp_target_fini(row);
	}
	list->count = kept;
}

/*
 * Record a tree whose root has no socket, as the master of nginx. @descendants: those that have
 * one.
 */
static int collect_descendants(const struct rp_tool_options *options,
			       struct rp_recording_plan *plan, const struct rp_proc *process,
			       const struct rp_target_list *descendants)
{
	struct rp_target target = {
		.pid = process->pid, .start_time = process->start_time,
		.name = rp_proc_name(process->pid),
	};
	int status = RP_EXIT_FAILURE;

	plan->target = &target;
	if (!target.name)
		rp_tool_error("out of memory");
	else if (!rp_recording_check_any(options, descendants->rows, descendants->count,
					 process->pid, plan->providers, plan->provider_count))
		status = record(plan, options);
	rp_target_fini(&target);
	return status;
}

/* Record a tree if the root has no socket and a descendant has one. Return: whether that is so. */
static bool try_descendants(const struct rp_tool_options *options, struct rp_recording_plan *plan,
			    int *ret_status)
{
	struct rp_target_list list;
	struct rp_target target;
	struct rp_proc process;
	int has_socket;
	bool has_any;

	if (!(options->given & RP_OPTION_TREE) || options->name ||
	    rp_proc_read(options->pid, &process))
		return false;
	has_socket = rp_target_look(options->pid, &target);
	if (has_socket == 1)
		rp_target_fini(&target);
	if (has_socket != 0 || rp_target_list_scan(&list) < 0)
		return false;
	keep_descendants(&list, &process);
	has_any = list.count > 0;
	if (has_any)
		*ret_status = collect_descendants(options, plan, &process, &list);
	rp_target_list_fini(&list);
	return has_any;
}

static int collect_process(const struct rp_tool_options *options, struct rp_recording_plan *plan)
{
	struct rp_target target;
	int status;

	/* If the trace goes to standard output, its reader may print on this same terminal. */
	plan->live = isatty(STDERR_FILENO) && !(options->given & RP_OPTION_QUIET) &&
		     !is_to_stdout(options);
	if (try_descendants(options, plan, &status))
		return status;
	if (rp_target_find(options->pid, options->name, &target))
		return RP_EXIT_FAILURE;
	plan->target = &target;
	if (rp_recording_check_providers(options, &target, plan->providers, plan->provider_count))
		status = RP_EXIT_FAILURE;
	else
		status = record(plan, options);
	rp_target_fini(&target);
	return status;
}

/* Reports an occupied path before the command runs, where possible. */
static int check_free(const struct rp_tool_options *options)
{
	const char *path = options->output;

	if (!path || options->given & RP_OPTION_FORCE || strstr(path, "{pid}") ||
	    !rp_output_is_taken(path))
		return 0;
	rp_tool_error("%s exists already; choose another file by -o, or give --force", path);
	return -EEXIST;
}

static int record_child(struct rp_recording_plan *plan, const struct rp_tool_options *options)
{
	const char *command = options->operands[0], *base = strrchr(command, '/');
	struct rp_child *child = plan->child;
	const struct rp_target target = {
		.pid = child->port.pid,
		.path = child->port.path,
		.port = &child->port,
		.name = (char *)(base ? base + 1 : command),
	};
	int status;

	plan->target = &target;
	status = record(plan, options);
	/* The command runs even if the trace failed. */
	rp_child_resume(child, &target);
	rp_child_wait(child);
	return status ? status : child->status;
}

static int collect_child(const struct rp_tool_options *options, struct rp_recording_plan *plan)
{
	struct rp_child child;
	int status = RP_EXIT_FAILURE;

	if (check_free(options))
		return RP_EXIT_FAILURE;
	plan->child = &child;
	plan->report_missing = !(options->given & RP_OPTION_MISSING);
	if (!rp_child_start(&child, options->operands, is_to_stdout(options))) {
		if (!rp_child_await(&child))
			status = record_child(plan, options);
		else
			rp_tool_error("%s was not traced: does it use libringpipe, and ran long "
				      "enough to load it?", options->operands[0]);
	}
	rp_child_fini(&child);
	return status;
}

int rp_command_collect(const struct rp_tool_options *options)
{
	struct rp_recording_plan plan = { 0 };
	int status;

	if ((options->given & RP_OPTION_TREE) && options->kernel) {
		rp_tool_error("collect: --kernel traces one process; do not use it with --tree");
		return RP_EXIT_USAGE;
	}
	if (plan_recording(options, &plan))
		return RP_EXIT_USAGE;
	status = options->child ? collect_child(options, &plan) : collect_process(options, &plan);
	free((void *)plan.providers);
	return status;
}
