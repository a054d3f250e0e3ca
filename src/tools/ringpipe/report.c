/* SPDX-License-Identifier: MIT */
/* ringpipe report FILE WHAT: opens the trace and calls the report's function. */
#include "tools/ringpipe/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/trace/input.h"
#include "tools/trace/time_range.h"

/* The events that a report reads to have those of its range. */
enum report_reading {
	READ_RANGE,
	READ_WHERE,			/* likewise, but only those that fulfil the expression */
	READ_TAIL,			/* and later ones, until the spans of the range end */
	READ_POINTS,			/* and those between the sequence points around the range */
	/*
	 * Those of collections, also earlier ones that began or ended one, and later ones until the
	 * pauses of the range end.
	 */
	READ_COLLECTIONS,
};

/* gc_pauses.c has the ids. A background collection that began earlier names pauses of the range. */
#define RUNTIME "provider == \"Microsoft-Windows-DotNETRuntime\""
#define COLLECTIONS RUNTIME " and (id <= 4 or id == 9)"
#define COLLECTION_BOUNDS RUNTIME " and (id == 1 or id == 2)"

static const struct report_kind {
	const char *name;
	rp_option_set options;		/* those of the command that it does not ignore */
	bool reads_twice;
	enum report_reading reading;
	int (*run)(const struct rp_report *report);
} kinds[] = {
	/* All reports but `events` count what they leave out, such as losses. */
	{ "summary", RP_OPTION_ALL | RP_OPTION_TOP | RP_OPTION_WHERE, false, READ_RANGE,
	  rp_report_summary },
	{ "events", RP_OPTION_ALL | RP_OPTION_WHERE, false, READ_WHERE, rp_report_events },
	{ "spans", RP_OPTION_SPAN | RP_OPTION_SLOWEST | RP_OPTION_WHERE, false, READ_TAIL,
	  rp_report_spans },
	{ "losses", RP_OPTION_WHERE, false, READ_POINTS, rp_report_losses },
	{ "cpu", RP_OPTION_BY | RP_OPTION_FUNCTION | RP_OPTION_TOP | RP_OPTION_WHERE, true,
	  READ_RANGE, rp_report_cpu },
	{ "offcpu", RP_OPTION_BY | RP_OPTION_FUNCTION | RP_OPTION_TOP | RP_OPTION_WHERE, true,
	  READ_RANGE, rp_report_offcpu },
	{ "waits", RP_OPTION_TOP | RP_OPTION_WHERE, true, READ_RANGE, rp_report_waits },
	{ "counters", RP_OPTION_WHERE, false, READ_RANGE, rp_report_counters },
	{ "gc", RP_OPTION_SLOWEST | RP_OPTION_WHERE, false, READ_COLLECTIONS, rp_report_gc },
	{ "heap", RP_OPTION_TOP | RP_OPTION_DIFF | RP_OPTION_WHERE, true, READ_RANGE,
	  rp_report_heap },
	{ "json", RP_OPTION_WHERE, false, READ_RANGE, rp_report_json },
	{ "locks", RP_OPTION_TOP | RP_OPTION_WHERE, true, READ_RANGE, rp_report_locks },
	{ "timeline", RP_OPTION_TOP | RP_OPTION_WHERE, true, READ_RANGE, rp_report_timeline },
};

/* It has another trace, too; see rp_report_diff(). */
static const struct report_kind diff = {
	"diff", RP_OPTION_DIFF | RP_OPTION_WHERE, true, READ_TAIL, rp_report_diff,
};

#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))
/* Every report has them. */
#define COMMON \
	(RP_OPTION_FROM | RP_OPTION_RANGE_END | RP_OPTION_FORMAT | RP_OPTION_HELP)

void rp_report_offer(const char *begin)
{
	for (size_t i = 0; i < KIND_COUNT; i++) {
		if (!strncmp(kinds[i].name, begin, strlen(begin)))
			puts(kinds[i].name);
	}
}

/* Return: NULL, after an error line, if there is no such report or an option is not for it. */
static const struct report_kind *find_kind(const struct rp_tool_options *options)
{
	const char *name = options->operand_count > 1 ? options->operands[1] : kinds[0].name;
	const struct report_kind *kind = NULL;
	const char *unused;

	for (size_t i = 0; i < KIND_COUNT; i++) {
		if (!strcmp(kinds[i].name, name))
			kind = &kinds[i];
	}
	if (!kind) {
		rp_tool_error("report: no report is called '%s'; see ringpipe report --help", name);
		return NULL;
	}
	if (options->given & RP_OPTION_DIFF & ~kind->options)
		kind = &diff;
	unused = rp_options_name(options->given & ~(kind->options | COMMON));
	if (unused) {
		rp_tool_error("report: --%s cannot be used with %s%s", unused,
			      kind == &diff ? "--" : "", kind->name);
		return NULL;
	}
	return kind;
}

/* Copy what a pipe has, decompressed. Return: 0; -errno of a read or a write. */
static int copy(struct rp_input *input, FILE *file)
{
	static char buffer[1 << 16];
	ssize_t got;

	while ((got = rp_input_read(input, buffer, sizeof(buffer))) > 0) {
		if (fwrite(buffer, 1, (size_t)got, file) != (size_t)got)
			return -errno;
	}
	return got < 0 ? (int)got : fflush(file) != 0 ? -errno : 0;
}

/*
 * A pipe can be read only once, so a report that reads twice reads a copy in an unnamed file. If
 * the trace at `path` is no regular file, make the copy, which becomes standard input.
 * Return: 0, and the file, or NULL; an error, which was printed.
 */
static int copy_pipe(const char *path, FILE **ret_file)
{
	struct rp_input input;
	int ret = rp_input_open_bytes(&input, path, -1);

	*ret_file = NULL;
	if (ret)
		return ret;
	if (!input.bytes) {
		*ret_file = tmpfile();
		ret = *ret_file ? copy(&input, *ret_file) : -errno;
		if (ret == 0 && (dup2(fileno(*ret_file), STDIN_FILENO) < 0 ||
				 lseek(STDIN_FILENO, 0, SEEK_SET) < 0))
			ret = -errno;
		if (ret)
			rp_tool_error("cannot copy %s, which the report reads twice: %s",
				      input.path, strerror(-ret));
	}
	rp_input_close(&input);
	if (ret && *ret_file)
		fclose(*ret_file);
	return ret;
}

/* Make the reader return what the report needs. Return: as rp_time_range_apply(). */
static int select_events(const struct report_kind *kind, const char *path,
			 const struct rp_input *input, struct rp_report *report)
{
	const bool is_gc = kind->reading == READ_COLLECTIONS;
	struct rp_expression *collections = NULL, *bounds = NULL;
	struct rp_trace_query query;
	int ret = rp_time_range_resolve("report", report->options, report->reader,
					&report->range);

	if (ret == 0 && is_gc &&
	    (rp_expression_take("report", COLLECTIONS, &collections) ||
	     rp_expression_take("report", COLLECTION_BOUNDS, &bounds)))
		ret = -ENOMEM;
	if (ret == 0) {
		query = rp_time_range_query(&report->range);
		query.where = is_gc ? collections : kind->reading == READ_WHERE ? report->where :
			      NULL;
		query.lead = bounds;
		query.has_tail = is_gc || kind->reading == READ_TAIL;
		query.has_points = kind->reading == READ_POINTS;
		ret = rp_time_range_select("report", &query, path, input, report->reader);
	}
	rp_expression_destroy(collections);
	rp_expression_destroy(bounds);
	return ret;
}

static int run(const struct report_kind *kind, const char *path, FILE *copied,
	       struct rp_report *report)
{
	char copied_path[64];
	struct rp_input input;
	int status, ret;

	if (rp_input_open(&input, copied ? "-" : path, -1, &report->reader))
		return RP_EXIT_FAILURE;
	report->path = input.path;
	report->file = input.bytes ? input.path : NULL;
	if (copied) {
		snprintf(copied_path, sizeof(copied_path), "/proc/self/fd/%d", fileno(copied));
		report->file = copied_path;
	}
	status = RP_EXIT_USAGE;
	ret = select_events(kind, path, &input, report);
	if (ret != -EINVAL)
		status = ret ? RP_EXIT_FAILURE : kind->run(report);
	/* The report printed a failure to read, but not the damage which the reader skipped. */
	if (status == RP_EXIT_OK)
		status = rp_report_end(report, 0);
	rp_reader_close(report->reader);
	rp_input_close(&input);
	return status;
}

int rp_command_report(const struct rp_tool_options *options)
{
	const struct report_kind *kind = find_kind(options);
	struct rp_report report = { .options = options };
	const char *path = options->operands[0];
	FILE *copied = NULL;
	int status = RP_EXIT_FAILURE;

	if (!kind)
		return RP_EXIT_USAGE;
	if (options->where &&
	    rp_expression_take("report: --where", options->where, &report.where))
		return RP_EXIT_USAGE;
	if (!kind->reads_twice || copy_pipe(path, &copied) == 0)
		status = run(kind, path, copied, &report);
	if (copied)
		fclose(copied);
	rp_expression_destroy(report.where);
	return status;
}
