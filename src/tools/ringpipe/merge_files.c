/* SPDX-License-Identifier: MIT */
/* ringpipe merge: puts several traces on one time axis. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "nettrace/format.h"
#include "tools/cli/display_text.h"
#include "tools/trace/input.h"
#include "tools/cli/progress.h"
#include "tools/cli/signals.h"
#include "tools/client/target.h"
#include "tools/cli/tool.h"
#include "tools/trace/processes.h"
#include "tools/trace/trace_convert.h"
#include "tools/trace/trace_merge.h"
#include "tools/trace/trace_output.h"
#include "tools/trace/trace_scan.h"

/*
 * Ids of processes and threads of each further machine are higher by ID_STEP. TraceEvent keeps ids
 * in 31 bits; those of Linux have 22, and an id that is used again in a recording gets more.
 */
#define ID_STEP (1u << 26)
#define MACHINES_MAX 32u

struct merge;

struct merged_file {
	struct merge *merge;
	const char *path;
	struct rp_trace_scan scan;
	struct rp_trace_merge_source source;
	struct rp_input input;		/* of the second reading */
	int spool_fd;			/* the converted trace; or -1 */
	int error;			/* that ended the first reading, or 0 */
	bool is_damaged;		/* or it stops before its end */
	size_t machine;
	const struct rp_trace_scan *clock;	/* the part that has the machine's clock */
	char *host;			/* for names of processes; or NULL */
	char *name;			/* of its process; or NULL */
};

struct merge {
	const struct rp_tool_options *options;
	struct merged_file *parts;
	size_t count, machine_count;
	struct rp_trace_output output;
	struct rp_progress progress;
	uint64_t taken, total;		/* bytes, of the files that are being read */
	int signal_fd;
	bool is_stopped;
};

static ssize_t read_part(void *data, void *buffer, size_t size)
{
	struct merged_file *part = data;
	uint64_t before = part->input.taken;
	ssize_t got = rp_input_read(&part->input, buffer, size);

	part->merge->taken += part->input.taken - before;
	rp_progress_show(&part->merge->progress, part->merge->taken, part->merge->total);
	part->merge->is_stopped |= got == -ECANCELED;
	return got;
}

/* "web1" for "traces/web1.nettrace.zst". */
static char *find_stem(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path, *dot = strstr(name, ".nettrace");

	return dot && dot > name ? strndup(name, (size_t)(dot - name)) : strdup(name);
}

/* Return: "server" for "/usr/bin/server -p 80", or the file's name. */
static char *find_name(const struct merged_file *part)
{
	char *name = rp_process_name_of(part->scan.command_line);

	return name ? name : find_stem(part->path);
}

/*
 * Version 4 states the processes of threads by events, which only version 6 can keep apart, and a
 * merged trace has the types of version 4.
 */
static int convert_part(struct merged_file *part, struct rp_reader *reader)
{
	struct rp_output spool = { .path = part->path, .filter_fd = -1, .status_fd = -1 };
	const struct rp_trace_convert_plan plan = {
		.form = RP_TRACE_FORM_PLAIN, .output = &spool,
	};
	struct rp_trace_convert_result result;
	int output_error = 0;

	spool.fd = part->spool_fd = rp_output_open_spool(&part->merge->output.output,
							 rp_target_directory());
	if (spool.fd < 0) {
		rp_tool_error("cannot open a file for a part of the trace: %s",
			      strerror(-spool.fd));
		return spool.fd;
	}
	/* The scan has seen the damage, if there is any. */
	(void)rp_trace_convert(reader, &plan, &result, &output_error);
	if (output_error)
		rp_tool_error("cannot write %s: %s", part->merge->output.output.path,
			      strerror(-output_error));
	return output_error;
}

/* Read a trace to find out where it belongs. 0; -errno, after an error line. */
static int scan_part(struct merged_file *part)
{
	struct merge *merge = part->merge;
	struct rp_reader *reader;
	struct rp_input input;
	char buffer[512];
	const char *said;
	int ret = rp_input_open(&input, part->path, merge->signal_fd, &reader);

	merge->is_stopped |= ret == -ECANCELED;
	if (ret < 0)
		return ret;
	merge->total += input.bytes;
	if (rp_trace_output_is_input(&merge->output, input.fd)) {
		ret = -EEXIST;
	} else {
		part->error = rp_trace_scan_read(&part->scan, reader);
		merge->is_stopped |= part->error == -ECANCELED;
		if (part->error == -ENOMEM)
			ret = -ENOMEM;
		said = rp_input_explain(reader, part->error, buffer, sizeof(buffer));
		part->is_damaged = said;
		if (said && part->error != -ECANCELED)
			rp_tool_error("%s: %s; the merged trace has %s", part->path, said,
				      rp_input_given(reader));
	}
	rp_reader_close(reader);
	rp_input_close(&input);
	return merge->is_stopped ? -ECANCELED : ret;
}

/* Prepare the second reading. 0; -errno, after an error line. */
static int prepare_part(struct merged_file *part)
{
	struct rp_reader *reader;
	struct rp_input input;
	int ret;

	if (!part->scan.has_types &&
	    (part->scan.info.version != 4 || !part->scan.has_processes))
		return rp_input_open_bytes(&part->input, part->path, part->merge->signal_fd);
	ret = rp_input_open(&input, part->path, part->merge->signal_fd, &reader);
	if (ret < 0)
		return ret;
	ret = convert_part(part, reader);
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret;
}

/*
 * Find the machine of a part. All parts of a machine are converted by one of them, the first with
 * the most readings of its clock, so that their times remain true to each other.
 */
static void find_machine(struct merged_file *part)
{
	const struct merge *merge = part->merge;
	const struct merged_file *earlier = merge->parts;

	while (earlier < part && !rp_trace_scan_is_same_boot(&earlier->scan, &part->scan))
		earlier++;
	part->machine = earlier < part ? earlier->machine : part->merge->machine_count++;
	part->clock = NULL;
	for (size_t i = 0; i < merge->count; i++) {
		const struct rp_trace_scan *other = &merge->parts[i].scan;

		if (rp_trace_scan_is_same_boot(other, &part->scan) &&
		    (!part->clock || other->reading_count > part->clock->reading_count))
			part->clock = other;
	}
}

/* A process that an earlier trace has is the same one. */
static bool is_known(const struct merge *merge, const struct merged_file *part)
{
	for (const struct merged_file *other = merge->parts; other < part; other++)
		if (other->source.pid == part->source.pid)
			return true;
	return false;
}

static int describe_part(struct merged_file *part)
{
	struct rp_trace_merge_source *source = &part->source;
	const uint64_t step = part->machine * (uint64_t)ID_STEP;
	const char *host = part->clock->host;

	if (part->merge->machine_count > 1) {
		part->host = *host ? strdup(host) : find_stem(part->path);
		if (!part->host)
			return -ENOMEM;
	}
	*source = (struct rp_trace_merge_source){
		.fd = part->spool_fd, .is_complete = true, .resumes = true, .path = part->path,
		.host = part->host, .id_step = step, .clock = part->clock->clock,
		.trace_clock = part->machine ? &part->merge->parts[0].clock->clock : NULL,
		.read = part->spool_fd < 0 ? read_part : NULL, .data = part,
	};
	if (part->scan.has_processes || !part->scan.info.process_id)
		return 0;
	source->pid = (pid_t)(part->scan.info.process_id + step);
	source->replaces = is_known(part->merge, part);
	part->name = find_name(part);
	if (part->name && part->host) {
		char *name = part->name;

		if (asprintf(&part->name, "%s@%s", name, part->host) < 0)
			part->name = NULL;
		free(name);
	}
	source->name = part->name;
	source->command_line = part->scan.command_line;
	return part->name ? 0 : -ENOMEM;
}

/* Read all traces once. 0; -errno, after an error line. */
static int scan(struct merge *merge)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < merge->count; i++)
		ret = scan_part(&merge->parts[i]);
	for (size_t i = 0; ret == 0 && i < merge->count; i++) {
		find_machine(&merge->parts[i]);
		ret = prepare_part(&merge->parts[i]);
	}
	if (ret)
		return ret;
	if (merge->machine_count > MACHINES_MAX) {
		rp_tool_error("merge: the traces are of %zu machines; a merged trace can have %u",
			      merge->machine_count, MACHINES_MAX);
		return -E2BIG;
	}
	for (size_t i = 0; ret == 0 && i < merge->count; i++)
		ret = describe_part(&merge->parts[i]);
	if (ret)
		rp_tool_error("out of memory");
	return ret;
}

/* 0; -errno of the output; -ENOMEM; -ENODATA. */
static int write_trace(struct merge *merge)
{
	struct rp_trace_merge *trace;
	int ret = rp_output_begin(&merge->output.output);

	if (ret == 0)
		ret = rp_trace_merge_create((pid_t)merge->parts[0].scan.info.process_id,
					    RP_NETTRACE_V6, &merge->output.output, &trace);
	if (ret < 0)
		return ret;
	for (size_t i = 0; ret == 0 && i < merge->count; i++)
		ret = rp_trace_merge_add(trace, &merge->parts[i].source);
	if (ret == 0)
		ret = rp_trace_merge_finish(trace);
	rp_trace_merge_destroy(trace);
	return ret;
}

/* Print how the clock of another machine was converted. */
static void print_clock(const struct merged_file *part)
{
	const struct rp_machine_clock *clock = &part->source.clock;
	const struct rp_machine_clock *first = part->source.trace_clock;

	if (!first) {
		fputs(", the clock of the merged trace\n", stderr);
		return;
	}
	fprintf(stderr, ", clock of %s by %s of its time of day, within %.1f us",
		part->source.host, part->clock->reading_count > 1 ? "readings" : "one reading",
		(double)(clock->residual_ns + first->residual_ns) / 1e3);
	if (clock->drift != 0)
		fprintf(stderr, ", drift %.3f ppm", (clock->drift - first->drift) * 1e6);
	fputc('\n', stderr);
}

static void print_result(const struct merge *merge)
{
	char events[RP_TEXT_MAX], lost[RP_TEXT_MAX], late[RP_TEXT_MAX];
	uint64_t event_sum = 0, lost_sum = 0;

	for (size_t i = 0; i < merge->count; i++) {
		event_sum += merge->parts[i].source.events;
		lost_sum += merge->parts[i].source.lost;
	}
	fprintf(stderr, "%s: %s of %zu traces, %s lost\n", merge->output.output.path,
		rp_text_counted(event_sum, "event", events), merge->count,
		rp_text_count(lost_sum, lost));
	for (size_t i = 0; i < merge->count; i++) {
		const struct merged_file *part = &merge->parts[i];

		fprintf(stderr, "    %s: %s", part->path,
			rp_text_counted(part->source.events, "event", events));
		if (part->source.late)
			fprintf(stderr, ", %s of them at a later time than their own",
				rp_text_count(part->source.late, late));
		print_clock(part);
	}
}

static int finish(struct merge *merge, int error)
{
	const char *path = merge->output.output.path;
	int status = RP_EXIT_OK;

	rp_progress_end(&merge->progress);
	if (error == 0)
		error = rp_trace_output_close(&merge->output);
	if (error == -ECANCELED)
		rp_tool_error("stopped; %s lacks the end of the trace", path);
	else if (error)
		rp_tool_error("cannot write %s: %s", path, strerror(-error));
	if (error) {
		rp_trace_output_discard(&merge->output);
		return error == -ECANCELED ? RP_EXIT_GAVE_UP : RP_EXIT_FAILURE;
	}
	for (size_t i = 0; i < merge->count; i++)
		if (merge->parts[i].is_damaged)
			status = RP_EXIT_FAILURE;
	if (merge->is_stopped) {
		rp_tool_error("stopped; %s has the events up to then", path);
		status = RP_EXIT_GAVE_UP;
	} else if (!(merge->options->given & RP_OPTION_QUIET)) {
		print_result(merge);
	}
	return status;
}

static int run(struct merge *merge)
{
	int ret, status = RP_EXIT_FAILURE;

	rp_trace_output_make_interruptible(&merge->output, merge->signal_fd);
	rp_progress_begin(&merge->progress, merge->options->given & RP_OPTION_QUIET);
	/* At the limit of the file size, write(2) then fails, and this process survives. */
	signal(SIGXFSZ, SIG_IGN);
	ret = scan(merge);
	if (ret == 0) {
		status = finish(merge, write_trace(merge));
	} else {
		rp_trace_output_discard(&merge->output);
		if (merge->is_stopped)
			status = RP_EXIT_GAVE_UP;
	}
	for (size_t i = 0; i < merge->count; i++) {
		struct merged_file *part = &merge->parts[i];

		rp_trace_scan_fini(&part->scan);
		if (part->input.path)
			rp_input_close(&part->input);
		if (part->spool_fd >= 0)
			close(part->spool_fd);
		free(part->host);
		free(part->name);
	}
	return status;
}

/* Return: whether both paths lead to one file, whose events the new trace would have twice. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat one, two;

	return stat(a, &one) == 0 && stat(b, &two) == 0 && S_ISREG(one.st_mode) &&
	       rp_file_is_same(&one, &two);
}

static int check_operand(char **operands, int index)
{
	struct stat file;

	if (!strcmp(operands[index], "-") ||
	    (stat(operands[index], &file) == 0 &&
	     (S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode)))) {
		rp_tool_error("merge: reads each trace twice, so it needs files; %s is none",
			      operands[index]);
		return -EINVAL;
	}
	for (int i = 0; i < index; i++) {
		if (is_same_file(operands[i], operands[index])) {
			rp_tool_error("merge: %s and %s are the same file", operands[i],
				      operands[index]);
			return -EINVAL;
		}
	}
	return 0;
}

static int check_usage(const struct rp_tool_options *options)
{
	if (!options->output) {
		rp_tool_error("merge: requires -o FILE; see ringpipe merge --help");
		return -EINVAL;
	}
	for (int i = 0; i < options->operand_count; i++) {
		if (check_operand(options->operands, i) < 0)
			return -EINVAL;
	}
	return 0;
}

int rp_command_merge(const struct rp_tool_options *options)
{
	struct merge merge = { .options = options, .count = (size_t)options->operand_count };
	int status = RP_EXIT_FAILURE;

	if (check_usage(options) < 0)
		return RP_EXIT_USAGE;
	merge.parts = calloc(merge.count, sizeof(*merge.parts));
	if (!merge.parts) {
		rp_tool_error("out of memory");
		return RP_EXIT_FAILURE;
	}
	for (size_t i = 0; i < merge.count; i++)
		merge.parts[i] = (struct merged_file){
			.merge = &merge, .path = options->operands[i], .spool_fd = -1,
			.input.fd = -1,
		};
	merge.signal_fd = rp_signals_open();
	if (rp_trace_output_open(&merge.output, options->output,
				 options->given & RP_OPTION_FORCE) == 0)
		status = run(&merge);
	rp_trace_output_fini(&merge.output);
	rp_signals_close(merge.signal_fd);
	free(merge.parts);
	return status;
}
