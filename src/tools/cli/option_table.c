/* SPDX-License-Identifier: MIT */
/* The options of all commands, one row each, and the functions that take their values. */
#include "tools/cli/option_table.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include <ringpipe/session.h>

#define REFRESH_MAX_MS 86400000u
#define SLOWEST_MAX 100000u

static int take_pid(struct rp_tool_options *options, const char *value)
{
	pid_t pid;

	if (rp_pid_parse(value, &pid))
		return -EINVAL;
	if (options->pid_count == 0)
		options->pid = pid;
	if (options->pid_count < RP_PIDS_MAX)
		options->pids[options->pid_count] = pid;
	options->pid_count++;
	return 0;
}

/* The value is any text but the empty one. */
#define TAKE_TEXT(name) \
	static int take_##name(struct rp_tool_options *options, const char *value) \
	{ \
		options->name = value; \
		return *value ? 0 : -EINVAL; \
	}
TAKE_TEXT(name)
TAKE_TEXT(output)
TAKE_TEXT(providers)
TAKE_TEXT(counters)
TAKE_TEXT(event)
TAKE_TEXT(field)
TAKE_TEXT(function)
TAKE_TEXT(listen)
TAKE_TEXT(archive)
TAKE_TEXT(symbols)

static int take_inlines(struct rp_tool_options *options, const char *value)
{
	(void)value;
	options->inlines = true;
	return 0;
}

TAKE_TEXT(span)
TAKE_TEXT(id)
TAKE_TEXT(where)
TAKE_TEXT(to)
TAKE_TEXT(diff)
TAKE_TEXT(html)

static int take_from(struct rp_tool_options *options, const char *value)
{
	return rp_time_point_parse(value, &options->from);
}

static int take_range_end(struct rp_tool_options *options, const char *value)
{
	return rp_time_point_parse(value, &options->range_end);
}

/* The name of no format begins with a digit, as times do. */
static int take_format_or_end(struct rp_tool_options *options, const char *value)
{
	if (*value < '0' || *value > '9')
		return take_to(options, value);
	options->given |= RP_OPTION_RANGE_END;
	return take_range_end(options, value);
}

static int take_binary(struct rp_tool_options *options, const char *value)
{
	options->binary = value;
	return 0;
}

static int take_culture(struct rp_tool_options *options, const char *value)
{
	options->culture = value;
	return 0;
}

static int take_session(struct rp_tool_options *options, const char *value)
{
	return rp_number_parse(value, UINT64_MAX, &options->session) || options->session == 0 ?
	       -EINVAL : 0;
}

static int take_duration(struct rp_tool_options *options, const char *value)
{
	return rp_duration_parse(value, &options->duration_ms);
}

static int take_shortest_wait(struct rp_tool_options *options, const char *value)
{
	return rp_short_time_parse(value, &options->off_cpu_ns);
}

static int take_last(struct rp_tool_options *options, const char *value)
{
	return rp_duration_parse(value, &options->last_ms);
}

static int take_buffer(struct rp_tool_options *options, const char *value)
{
	uint64_t megabytes;

	if (rp_number_parse(value, 1 << 20, &megabytes) || megabytes == 0)
		return -EINVAL;
	options->buffer_mb = (uint32_t)megabytes;
	return 0;
}

static int take_roll(struct rp_tool_options *options, const char *value)
{
	uint64_t megabytes;

	if (rp_number_parse(value, 1 << 30, &megabytes) || megabytes << 20 < RP_SESSION_ROLL_MIN)
		return -EINVAL;
	options->roll_mb = (uint32_t)megabytes;
	return 0;
}

static int take_block(struct rp_tool_options *options, const char *value)
{
	uint64_t ms;

	if (rp_number_parse(value, UINT32_MAX, &ms) || ms == 0)
		return -EINVAL;
	options->block_ms = (uint32_t)ms;
	return 0;
}

#define FIND(names, value) find(names, sizeof(names) / sizeof((names)[0]), value)

/* Return: the index of the value in the names, of which some are NULL; -EINVAL. */
static int find(const char *const *names, size_t count, const char *value)
{
	for (size_t i = 0; i < count; i++) {
		if (names[i] && !strcmp(value, names[i]))
			return (int)i;
	}
	return -EINVAL;
}

static int take_type(struct rp_tool_options *options, const char *value)
{
	static const char *const names[] = { [1] = "mini", [2] = "heap", [4] = "full" };
	int type = FIND(names, value);

	if (type >= 0)
		options->dump_type = (uint32_t)type;
	return type < 0 ? type : 0;
}

static int take_by(struct rp_tool_options *options, const char *value)
{
	static const char *const names[] = {
		[RP_REPORT_BY_FUNCTION] = "function", [RP_REPORT_BY_PROCESS] = "process",
		[RP_REPORT_BY_THREAD] = "thread",
	};
	int by = FIND(names, value);

	if (by >= 0)
		options->by = (enum rp_report_by)by;
	return by < 0 ? by : 0;
}

static int take_version(struct rp_tool_options *options, const char *value)
{
	if (strcmp(value, "4") != 0 && strcmp(value, "6") != 0)
		return -EINVAL;
	options->nettrace = (uint32_t)(*value - '0');
	return 0;
}

static int take_format(struct rp_tool_options *options, const char *value)
{
	static const char *const names[] = {
		[RP_FORMAT_TEXT] = "text", [RP_FORMAT_JSON] = "json", [RP_FORMAT_CSV] = "csv",
	};
	int format = FIND(names, value);

	if (format < 0)
		return take_version(options, value);
	options->format = (enum rp_format)format;
	return 0;
}

static int take_top(struct rp_tool_options *options, const char *value)
{
	return rp_number_parse(value, UINT64_MAX, &options->top) || options->top == 0 ? -EINVAL : 0;
}

static int take_slowest(struct rp_tool_options *options, const char *value)
{
	uint64_t count;

	if (rp_number_parse(value, SLOWEST_MAX, &count) || count == 0)
		return -EINVAL;
	options->slowest = (uint32_t)count;
	return 0;
}

static int take_refresh(struct rp_tool_options *options, const char *value)
{
	uint64_t ms;

	if (rp_duration_parse(value, &ms) || ms > REFRESH_MAX_MS)
		return -EINVAL;
	options->refresh_ms = ms;
	return 0;
}

static int take_step(struct rp_tool_options *options, const char *value)
{
	return rp_number_parse(value, INT64_MAX, &options->step) || options->step == 0 ?
	       -EINVAL : 0;
}

static int take_port(struct rp_tool_options *options, const char *value)
{
	uint64_t port;

	if (rp_number_parse(value, UINT16_MAX, &port))
		return -EINVAL;
	options->port = (uint16_t)port;
	return 0;
}

static int take_kernel(struct rp_tool_options *options, const char *value)
{
	return rp_kernel_groups_parse(value, &options->kernel);
}

static int take_machine(struct rp_tool_options *options, const char *value)
{
	return rp_machine_groups_parse(value, &options->kernel);
}

static int take_profile(struct rp_tool_options *options, const char *value)
{
	return rp_profile_parse(value, &options->kernel);
}

static int take_user(struct rp_tool_options *options, const char *value)
{
	const struct passwd *user = getpwnam(value);
	uint64_t number;

	if (!user && rp_number_parse(value, UINT32_MAX - 1, &number))
		return -EINVAL;
	options->user = user ? user->pw_uid : (uid_t)number;
	return 0;
}

static int take_cgroup(struct rp_tool_options *options, const char *value)
{
	options->cgroup = value;
	return *value == '/' ? 0 : -EINVAL;
}

static int take_until(struct rp_tool_options *options, const char *value)
{
	/* Not a size: an expression, which the command compiles. */
	if (rp_size_parse(value, &options->until_bytes) < 0)
		options->until = value;
	return 0;
}

const struct rp_option rp_option_table[] = {
	{ RP_OPTION_PID, 'p', "process-id", "PID", "the process, by its id", take_pid },
	{ RP_OPTION_NAME, 'n', "name", "NAME",
	  "the process with this name, which must be unique; see ringpipe ps", take_name },
	{ RP_OPTION_SESSION, 0, "session", "ID",
	  "the recorder's session, as ringpipe list shows it", take_session },
	{ RP_OPTION_TREE, 0, "tree", NULL,
	  "trace its present and later descendants too, into one file", NULL },
	{ RP_OPTION_OUTPUT, 'o', "output", "FILE",
	  "the output file; in that of one process, {pid} is replaced by its id", take_output },
	{ RP_OPTION_DIRECTORY, 'o', "output", "DIR",
	  "the directory for the generated files, which is created; with\n"
	  "--from-binary, the file for the manifest", take_output },
	{ RP_OPTION_CULTURE, 0, "culture", "NAME",
	  "the language of texts, such as de-DE; default: en-US, or the first\n"
	  "that the manifest has", take_culture },
	{ RP_OPTION_FROM_BINARY, 0, "from-binary", "FILE",
	  "write a manifest from the events of this executable or shared\n"
	  "library, which is not run", take_binary },
	{ RP_OPTION_FORCE, 'f', "force", NULL, "overwrite the file if it exists", NULL },
	{ RP_OPTION_PROVIDERS, 0, "providers", "LIST",
	  "NAME[:KEYWORDS[:LEVEL[:ARGUMENTS]]],…\n"
	  "keywords in hex (all), level 0-5 or its name (5), arguments\n"
	  "k=v;k2=v2; default, unless the text below states another: *,\n"
	  "which is every provider with all keywords at level 5", take_providers },
	{ RP_OPTION_MISSING, 0, "allow-missing", NULL,
	  "accept names of providers that the process does not have yet:\n"
	  "dlopen() may add them later", NULL },
	{ RP_OPTION_DURATION, 'd', "duration", "SECONDS|1m30s", "stop after this time",
	  take_duration },
	{ RP_OPTION_BUFFER, 0, "buffer", "MB",
	  "maximum memory of the session in the traced process (64)", take_buffer },
	{ RP_OPTION_RINGS, 0, "buffer", "MB",
	  "memory for the rings that the kernel fills (64)", take_buffer },
	{ RP_OPTION_LAST, 0, "last", "SECONDS|1m30s",
	  "choose --buffer so that it holds the events of this time; the\n"
	  "command first measures their rate, for at most this time", take_last },
	{ RP_OPTION_BLOCK, 0, "block", "MS",
	  "a writer waits up to MS milliseconds while the buffers are full;\n"
	  "for libringpipe only", take_block },
	{ RP_OPTION_COARSE, 0, "coarse", NULL,
	  "make events cheaper: their times are from a clock that advances\n"
	  "each millisecond; for libringpipe only", NULL },
	{ RP_OPTION_STACKS, 0, "stacks", NULL, "record the writer's stack with each event", NULL },
	{ RP_OPTION_KERNEL, 0, "kernel", "GROUPS",
	  "add kernel events of the process: sched, faults, block, syscalls,\n"
	  "or all; needs root, or CAP_BPF and CAP_PERFMON", take_kernel },
	{ RP_OPTION_MACHINE, 0, "kernel", "GROUPS",
	  "what to record besides samples: sched (waits; the default),\n"
	  "syscalls, futex, faults, block, irq, or all", take_machine },
	{ RP_OPTION_PROFILE, 0, "profile", "cpu|latency|io|all",
	  "groups for a purpose: none; sched, syscalls and futex; sched,\n"
	  "syscalls and block; or all", take_profile },
	{ RP_OPTION_OFF_CPU, 0, "off-cpu", "0|500us|2ms|1s",
	  "record waits, system calls and interrupts from this time on (1ms);\n"
	  "0 records all of them, and calls without stacks", take_shortest_wait },
	{ RP_OPTION_COMPACT, 0, "compact", NULL,
	  "version 6 with text in UTF-8 and integers of variable length", NULL },
	{ RP_OPTION_USER, 0, "user", "NAME|UID", "record only the processes of this user",
	  take_user },
	{ RP_OPTION_CGROUP, 0, "cgroup", "PATH",
	  "record only the processes in this cgroup and below; the path as in\n"
	  "/proc/PID/cgroup: /system.slice/nginx.service", take_cgroup },
	{ RP_OPTION_ARCHIVE, 0, "archive", "FILE.zip",
	  "also write an archive: the trace, a description of the machine,\n"
	  "and the messages; without -o, nothing else remains", take_archive },
	{ RP_OPTION_BINARIES, 0, "binaries", NULL,
	  "add the programs and libraries in the trace to the archive", NULL },
	{ RP_OPTION_UNTIL, 0, "until", "SIZE|EXPRESSION",
	  "stop when the trace has this size, as 500MB, or an event that\n"
	  "fulfils the expression, as --where of ringpipe report", take_until },
	{ RP_OPTION_WHERE, 0, "where", "EXPRESSION",
	  "only the events that fulfil this condition, for example\n"
	  "'provider == \"Shop-Orders\" and total > 100'; EXPRESSIONS in\n"
	  "ringpipe(1) describes the language", take_where },
	{ RP_OPTION_FROM, 0, "from", "TIME",
	  "only the events from this time on, or the spans that start then:\n"
	  "since the start of the recording, as 1.5s, or in UTC, as\n"
	  "2026-11-21T01:02:03.5Z", take_from },
	{ RP_OPTION_RANGE_END, 0, "to", "TIME", "only the events before this time, or the\n"
	  "spans that start then", take_range_end },
	{ RP_OPTION_SYMBOLS, 0, "symbols", "DIRECTORY[:…]",
	  "search these first: for .build-id/xx/yyyy as in an archive of\n"
	  "record, .build-id/xx/yyyy.debug, and files by their names", take_symbols },
	{ RP_OPTION_INLINES, 0, "inlines", NULL,
	  "name the functions that are inlined at an address, from the DWARF\n"
	  "of the files, as in \"leaf (inlined by middle, main)\"", take_inlines },
	{ RP_OPTION_QUIET, 'q', "quiet", NULL, "print no progress and no summary", NULL },
	{ RP_OPTION_OWN_EVENTS, 0, "events", NULL,
	  "list all events of the process, enabled or not", NULL },
	{ RP_OPTION_FIELDS, 0, "fields", NULL, "show the fields of each event too", NULL },
	{ RP_OPTION_ALL, 0, "all", NULL,
	  "show also what only .NET's tools read: the events EventCounters\n"
	  "and the provider Microsoft-DotNETCore-EventPipe", NULL },
	{ RP_OPTION_TYPE, 0, "type", "mini|heap|full",
	  "contents of the core: mini has the stacks and the memory that\n"
	  "registers point to; heap has all memory that no file holds\n"
	  "(default); full has all mapped memory", take_type },
	{ RP_OPTION_SPAN, 0, "span", "[PROVIDER/]NAME", "only spans of this name", take_span },
	{ RP_OPTION_SLOWEST, 0, "slowest", "N",
	  "print the N spans that took longest, up to 100000", take_slowest },
	{ RP_OPTION_ID, 0, "id", "ID", "only spans with this trace id or activity id", take_id },
	{ RP_OPTION_TOP, 0, "top", "N",
	  "show only the N most frequent kinds of events, or values; of\n"
	  "profiles, the N first rows (20)", take_top },
	{ RP_OPTION_BY, 0, "by", "function|process|thread",
	  "the rows of a profile: functions (default), or the functions of\n"
	  "each process or thread", take_by },
	{ RP_OPTION_FUNCTION, 0, "function", "NAME",
	  "show the callers and callees of this function", take_function },
	{ RP_OPTION_COUNTERS, 0, "counters", "LIST",
	  "PROVIDER[COUNTER,…],…; default: all counters of the process", take_counters },
	{ RP_OPTION_REFRESH, 0, "refresh", "SECONDS|1m30s",
	  "the time between two updates (1)",
	  take_refresh },
	{ RP_OPTION_EVENT, 0, "event", "PROVIDER:EVENT", "the event to count or print",
	  take_event },
	{ RP_OPTION_FIELD, 0, "field", "FIELD",
	  "the field whose values count; STRUCT.MEMBER for one in a struct", take_field },
	{ RP_OPTION_STEP, 0, "step", "N",
	  "a histogram with steps of N from 0; default: powers of two", take_step },
	{ RP_OPTION_PORT, 0, "port", "PORT", "the TCP port to serve (9464)", take_port },
	{ RP_OPTION_LISTEN, 0, "listen", "ADDRESS",
	  "the address to listen on, in numbers (127.0.0.1, this machine\n"
	  "only); with 0.0.0.0 or ::, any host that reaches it can connect", take_listen },
	{ RP_OPTION_RECOVER, 0, "recover", NULL,
	  "keep the events in files in memory, for ringpipe recover after a\n"
	  "crash", NULL },
	{ RP_OPTION_ROLL, 0, "roll", "MB",
	  "the process writes all events to numbered files named after -o,\n"
	  "MB megabytes in all, at least 8, and deletes the oldest files", take_roll },
	{ RP_OPTION_LIST, 0, "list", NULL, "list the directories of sessions", NULL },
	{ RP_OPTION_PRUNE, 0, "prune", NULL,
	  "remove the directories of ended processes, recovered or not", NULL },
	{ RP_OPTION_DIFF, 0, "diff", "LATER",
	  "what changed from FILE to this trace: spans, counters, functions;\n"
	  "with heap, also the live memory from a time of FILE to its end",
	  take_diff },
	{ RP_OPTION_FORMAT, 0, "format", "text|json|csv",
	  "print the rows as text (default), JSON or CSV", take_format },
	{ RP_OPTION_VERSION, 0, "format", "4|6",
	  "the version of nettrace to write; default: 4; of convert: the one\n"
	  "that FILE does not have, or FILE's with --where, --from, --to or\n"
	  "compression", take_version },
	{ RP_OPTION_TO, 0, "to", "FORMAT|TIME",
	  "write the format of another tool instead of nettrace: chrome,\n"
	  "perfetto, firefox, speedscope, pprof, folded, jsonl, csv, ctf, otlp or\n"
	  "otlp-profiles; or, if it begins with a digit, only the events before\n"
	  "this time",
	  take_format_or_end },
	{ RP_OPTION_GENERATE, 0, "to", "c|lttng|component|dtrace|markdown|all",
	  "what to generate: code in C (default), the same code with a provider\n"
	  "for LTTng-UST or with the code of components and their host,\n"
	  "definitions of the probes for dtrace, a reference in Markdown, or all\n"
	  "of these", take_to },
	{ RP_OPTION_VIEW_PORT, 0, "port", "PORT",
	  "the TCP port of the page on 127.0.0.1; default: any that is free", take_port },
	{ RP_OPTION_OPEN, 0, "open", NULL,
	  "open the page in the browser that xdg-open chooses", NULL },
	{ RP_OPTION_HTML, 0, "html", "FILE",
	  "write a page into FILE that works without this command, and end", take_html },
	{ RP_OPTION_HELP, 'h', "help", NULL, "print this help", NULL },
};

const size_t rp_option_count = sizeof(rp_option_table) / sizeof(rp_option_table[0]);
