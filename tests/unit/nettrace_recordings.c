/* SPDX-License-Identifier: MIT */
/*
 * Recordings of the .NET runtime, as zip files next to the summaries that TraceEvent made of them:
 * NAME.nettrace.zip and NAME.nettrace.baseline.txt with lines `provider/event, count, first event`.
 * RINGPIPE_TEST_DATA is the folder that contains them in nettrace/; they are not part of this
 * project.
 */
#include <sys/wait.h>

#include "nettrace_trace.h"

struct totals {
	uint64_t all;		/* every event */
	uint64_t listed;	/* those that a baseline lists */
	char tests[1024];	/* the events of TestEventSource0, as JSON */
};

/* Baselines omit DCEnd/LoadVerbose bookkeeping and IL maps of the CLR's providers. */
static int is_listed(const struct rp_reader_type *type)
{
	return strncmp(type->provider, "Microsoft-Windows-DotNET", 24) ||
		(type->id != 144 && type->id != 150 && type->id != 190);
}

static struct totals read_recording(const char *name)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct totals totals = { 0 };
	struct rp_reader *reader;
	char command[1024];
	FILE *pipe;
	int ret;

	snprintf(command, sizeof(command), "unzip -p '%s/nettrace/%s.nettrace.zip'",
		 getenv("RINGPIPE_TEST_DATA"), name);
	pipe = popen(command, "r");
	cr_assert_not_null(pipe);
	ret = rp_reader_open_fd(fileno(pipe), &reader);
	if (ret < 0) {
		pclose(pipe);
		cr_skip_test("no such recording, or no unzip");
	}
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		char *json = trace_json(&event);

		totals.all++;
		totals.listed += is_listed(event.type);
		if (!strcmp(event.type->provider, "TestEventSource0"))
			strncat(totals.tests, json,
				sizeof(totals.tests) - strlen(totals.tests) - 1);
		free(json);
	}
	cr_expect_eq(ret, 0, "%s", rp_reader_error(reader));
	cr_expect_eq(trace_stats(reader).ended, 1);
	cr_expect_eq(trace_stats(reader).lost, 0);
	rp_reader_close(reader);
	cr_expect_eq(pclose(pipe), 0);
	return totals;
}

static uint64_t baseline_sum(const char *name)
{
	char path[1024], *line = NULL;
	size_t capacity = 0;
	uint64_t sum = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/nettrace/%s.nettrace.baseline.txt",
		 getenv("RINGPIPE_TEST_DATA"), name);
	file = fopen(path, "r");
	cr_assert_not_null(file);
	while (getline(&line, &capacity, file) > 0) {
		const char *comma = strchr(line, ',');

		if (comma)
			sum += strtoull(comma + 1, NULL, 10);
	}
	free(line);
	fclose(file);
	return sum;
}

static void need_data(void)
{
	if (!getenv("RINGPIPE_TEST_DATA"))
		cr_skip_test("RINGPIPE_TEST_DATA names no folder with recordings");
}

Test(recordings, dotnet_3_with_stacks_and_seventeen_threads, .init = need_data)
{
	const char *name = "eventpipe-dotnetcore3.0-win-x64-objver4";
	struct totals totals = read_recording(name);

	cr_expect_eq(totals.all, 105540);
	cr_expect_eq(totals.listed, baseline_sum(name));
}

Test(recordings, dotnet_5_with_arrays, .init = need_data)
{
	const char *name = "eventpipe-dotnetcore5.0-win-x64-arraytypes";
	struct totals totals = read_recording(name);

	cr_expect_eq(totals.all, 1970);
	cr_expect_eq(totals.listed, baseline_sum(name));
	cr_expect_not_null(strstr(totals.tests,
		"{\"arg0\":[2032854139,1608221689,1470019200,199494339,1238846140,1366609043],"
		"\"arg1\":[26494,17115,-7229,18850,27931],\"arg2\":2033417279}"));
	cr_expect_null(strstr(totals.tests, "truncated"));
}

Test(recordings, dotnet_6, .init = need_data)
{
	const char *name = "eventpipe-dotnetcore6.0-win-x64-executioncheckpoints";
	struct totals totals = read_recording(name);

	cr_expect_eq(totals.all, 3);
	cr_expect_eq(totals.listed, baseline_sum(name));
}
