/* SPDX-License-Identifier: MIT */
/* ringpipe doctor: reports what works on this machine, for whom, and how to get the rest. */
#include "tools/client/doctor.h"

#include <stdio.h>
#include <string.h>

#include "tools/cli/own_programs.h"
#include "tools/cli/rows.h"
#include "tools/cli/tool.h"

static void check_programs(struct rp_finding *ret_finding);

/* In the order of the output: what servers need first, then what recording needs. */
static const struct {
	const char *name;
	const char *purpose;
	rp_check check;
	bool is_essential;		/* without it, no process can be traced */
} checks[] = {
	{ "kernel", "all", rp_check_kernel, true },
	{ "libc", "all", rp_check_libc, true },
	{ "rseq", "events without locks", rp_check_rseq, false },
	{ "membarrier", "events without locks", rp_check_membarrier, false },
	{ "clock", "events at the cost of a clock read", rp_check_clock, false },
	{ "sockets", "tracing from outside", rp_check_sockets, true },
	{ "recovery", "traces of killed processes", rp_check_recovery, false },
	{ "programs", "ringpipe record, ringpipe bpf and --kernel", check_programs, false },
	{ "lttng", "the LTTng exporter", rp_check_lttng, false },
	{ "perf_events", "ringpipe record", rp_check_perf_events, false },
	{ "cycles", "samples by processor cycles", rp_check_cycles, false },
	{ "tracefs", "tracepoints of ringpipe record and perf", rp_check_tracefs, false },
	{ "bpf", "waits, ringpipe bpf and --kernel", rp_check_bpf, false },
	{ "btf", "BPF programs on any kernel", rp_check_btf, false },
	{ "waits", "stacks of long waits", rp_check_waits, false },
	{ "uprobes", "bpftrace and perf on events", rp_check_uprobes, false },
	{ "user_events", "events for the kernel's tracers", rp_check_user_events, false },
	{ "kernel names", "names of kernel functions in stacks", rp_check_kernel_names, false },
	{ "processes", "recording other users' processes", rp_check_other_processes, false },
	{ "container", "recording the whole machine", rp_check_container, false },
};

#define CHECK_COUNT (sizeof(checks) / sizeof(checks[0]))

static const char *const state_names[RP_CHECK_STATES] = { "works", "limited", "missing" };

static void check_programs(struct rp_finding *ret_finding)
{
	static const char *const programs[] = {
		"ringpipe-record", "ringpipe-bpf", "ringpipe-kernel",
	};
	char missing[RP_CHECK_TEXT_MAX / 2] = "";
	size_t used = 0;

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (!rp_own_program_exists(programs[i]))
			used += (size_t)snprintf(missing + used, sizeof(missing) - used, "%s%s",
						 used ? ", " : "", programs[i]);
	}
	if (used)
		rp_finding_set(ret_finding, RP_CHECK_LIMITED,
			       "build ringpipe with libbpf and elfutils, and install all of it",
			       "not installed: %s", missing);
	else
		rp_finding_set(ret_finding, RP_CHECK_WORKS, NULL, "all installed");
}

static void print_text(size_t i, const struct rp_finding *finding)
{
	rp_tool_say(stdout, "%-8s  %-12s  %s", state_names[finding->state], checks[i].name,
		    finding->found);
	if (finding->state != RP_CHECK_WORKS)
		rp_tool_say(stdout, "%24sneeded for: %s", "", checks[i].purpose);
	if (finding->fix)
		rp_tool_say(stdout, "%24sto fix: %s", "", finding->fix);
}

static void add_row(struct rp_rows *rows, size_t i, const struct rp_finding *finding)
{
	rp_rows_add_string(rows, checks[i].name);
	rp_rows_add_string(rows, state_names[finding->state]);
	rp_rows_add_string(rows, finding->found);
	rp_rows_add_string(rows, checks[i].purpose);
	rp_rows_add_string(rows, finding->fix);
}

static void print_sum(const size_t counts[RP_CHECK_STATES])
{
	printf("%zu work, %zu limited, %zu missing\n", counts[RP_CHECK_WORKS],
	       counts[RP_CHECK_LIMITED], counts[RP_CHECK_MISSING]);
}

static const struct rp_column columns[] = {
	{ .key = "check" }, { .key = "state" }, { .key = "found" }, { .key = "needed_for" },
	{ .key = "fix" },
};

struct json_object *rp_doctor_to_json(void)
{
	struct json_object *array;
	struct rp_rows rows;

	rp_rows_init(&rows, RP_FORMAT_JSON, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < CHECK_COUNT; i++) {
		struct rp_finding finding = { 0 };

		checks[i].check(&finding);
		add_row(&rows, i, &finding);
	}
	array = rp_rows_take_json(&rows);
	rp_rows_fini(&rows);
	return array;
}

int rp_command_doctor(const struct rp_tool_options *options)
{
	size_t counts[RP_CHECK_STATES] = { 0 };
	int status = RP_EXIT_OK, printed = RP_EXIT_OK;
	struct rp_rows rows;

	rp_rows_init(&rows, options->format, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < CHECK_COUNT; i++) {
		struct rp_finding finding = { 0 };

		checks[i].check(&finding);
		counts[finding.state]++;
		if (finding.state == RP_CHECK_MISSING && checks[i].is_essential)
			status = RP_EXIT_FAILURE;
		if (options->format == RP_FORMAT_TEXT)
			print_text(i, &finding);
		else
			add_row(&rows, i, &finding);
	}
	if (options->format == RP_FORMAT_TEXT)
		print_sum(counts);
	else
		printed = rp_rows_print(&rows);
	rp_rows_fini(&rows);
	return printed ? printed : status;
}
