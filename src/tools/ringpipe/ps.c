/* SPDX-License-Identifier: MIT */
/*
 * ringpipe ps: lists the processes that can be traced. It queries all of them simultaneously with
 * one deadline, so a process that hangs costs half a second and a "?".
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/command_ids.h"
#include "tools/client/exchange.h"
#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/cli/signals.h"
#include "tools/client/target.h"
#include "tools/cli/tool.h"
#include "tools/ringpipe/ps.h"

#define DEADLINE_MS 500

/* Commands that identify a process, newest first: older runtimes do not know the newer ones. */
static const uint8_t info_commands[] = {
	RP_GET_PROCESS_INFO_3, RP_GET_PROCESS_INFO_2, RP_GET_PROCESS_INFO,
};
#define INFO_COMMANDS (sizeof(info_commands) / sizeof(info_commands[0]))

struct probe {
	const struct rp_target *target;
	struct rp_exchange exchange;
	size_t command;			/* index in info_commands */
	bool running;
	char *runtime;			/* or NULL: unknown */
};

struct survey {
	struct rp_message_buffer requests[INFO_COMMANDS];
	struct probe *probes;
	struct pollfd *waits;
	size_t count;
};

/*
 * ProcessInfo: u64 pid, GUID cookie, command line, OS, architecture. ProcessInfo2 adds the entry
 * point's name and the runtime's version. ProcessInfo3 puts a u32 version before and the platform
 * after these. libringpipe adds a u32, the number of its copies in the process.
 */
static char *read_runtime(const struct rp_exchange *exchange, uint8_t command)
{
	struct rp_cursor cursor = rp_exchange_payload(exchange);
	static const char ours[] = "ringpipe.";
	char *version, *mark, *runtime = NULL, others[32] = "";
	uint32_t copies = 1;

	if (command == 0x08)
		rp_cursor_skip(&cursor, 4);
	rp_cursor_skip(&cursor, 8 + 16);
	for (int i = 0; i < (command == 0x00 ? 3 : 4); i++)
		free(rp_message_take_string(&cursor));
	if (command == 0x00)
		return rp_cursor_failed(&cursor) ? NULL : strdup(".NET");
	version = rp_message_take_string(&cursor);
	if (!version)
		return NULL;
	/* libringpipe reports a .NET version with a suffix: 10.0.0+ringpipe.0.1.0 */
	mark = strstr(version, ours);
	if (mark && command == 0x08) {
		free(rp_message_take_string(&cursor));	/* the platform */
		copies = rp_cursor_get_u32(&cursor);
	}
	if (!rp_cursor_failed(&cursor) && copies > 1)
		snprintf(others, sizeof(others), " (1 of %u)", copies);
	if (asprintf(&runtime, "%s %s%s", mark ? "ringpipe" : ".NET",
		     mark ? mark + sizeof(ours) - 1 : version, others) < 0)
		runtime = NULL;
	free(version);
	return runtime;
}

static void start_probe(const struct survey *survey, struct probe *probe)
{
	probe->running = !rp_exchange_begin(&probe->exchange, probe->target,
					    &survey->requests[probe->command]);
}

static void step_probe(const struct survey *survey, struct probe *probe)
{
	int ret = rp_exchange_step(&probe->exchange);

	if (ret == 1)
		return;
	if (ret == 0)
		probe->runtime = read_runtime(&probe->exchange, info_commands[probe->command]);
	bool older = rp_exchange_unknown_command(&probe->exchange, ret);

	rp_exchange_end(&probe->exchange);
	probe->running = false;
	if (older && probe->command + 1 < INFO_COMMANDS) {
		probe->command++;
		start_probe(survey, probe);
	}
}

/*
 * Steps all running exchanges. Return: how many still run; `timeout_ms` becomes the shortest wait.
 */
static size_t step_all(struct survey *survey, int64_t *timeout_ms)
{
	size_t running = 0;

	for (size_t i = 0; i < survey->count; i++) {
		struct probe *probe = &survey->probes[i];

		survey->waits[i] = (struct pollfd){ .fd = -1 };
		if (!probe->running)
			continue;
		step_probe(survey, probe);
		if (!probe->running)
			continue;
		survey->waits[i] = rp_exchange_poll(&probe->exchange);
		if (survey->waits[i].fd < 0 && *timeout_ms > RP_EXCHANGE_RETRY_MS)
			*timeout_ms = RP_EXCHANGE_RETRY_MS;
		running++;
	}
	return running;
}

static void ask_all(struct survey *survey)
{
	int64_t deadline = rp_now_ms() + DEADLINE_MS;

	for (size_t i = 0; i < survey->count; i++)
		start_probe(survey, &survey->probes[i]);
	for (;;) {
		int64_t left = deadline - rp_now_ms();

		if (left <= 0 || step_all(survey, &left) == 0)
			break;
		if (poll(survey->waits, survey->count, (int)left) < 0 && errno != EINTR)
			break;
	}
	for (size_t i = 0; i < survey->count; i++)
		rp_exchange_end(&survey->probes[i].exchange);
}

static void survey_fini(struct survey *survey)
{
	for (size_t i = 0; survey->probes && i < survey->count; i++)
		free(survey->probes[i].runtime);
	for (size_t i = 0; i < INFO_COMMANDS; i++)
		rp_message_fini(&survey->requests[i]);
	free(survey->probes);
	free(survey->waits);
}

static int survey_init(struct survey *survey, const struct rp_target_list *list)
{
	*survey = (struct survey){
		.probes = calloc(list->count + 1, sizeof(*survey->probes)),
		.waits = calloc(list->count + 1, sizeof(*survey->waits)),
		.count = list->count,
	};
	if (!survey->probes || !survey->waits) {
		survey_fini(survey);
		return -ENOMEM;
	}
	for (size_t i = 0; i < INFO_COMMANDS; i++) {
		rp_message_begin(&survey->requests[i], RP_MESSAGE_PROCESS, info_commands[i]);
		rp_message_end(&survey->requests[i]);
	}
	for (size_t i = 0; i < list->count; i++) {
		survey->probes[i].target = &list->rows[i];
		survey->probes[i].exchange.fd = -1;
	}
	return 0;
}

static int print(const struct survey *survey, enum rp_format format)
{
	static const struct rp_column columns[] = {
		{ .key = "process_id", .title = "PID", .is_right = true },
		{ .key = "user", .title = "USER" },
		{ .key = "runtime", .title = "RUNTIME" },
		{ .key = "name", .title = "NAME" },
		{ .key = "command", .title = "COMMAND" },
		{ .key = "socket" },
	};
	struct rp_rows rows;
	int status;

	rp_rows_init(&rows, format, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < survey->count; i++) {
		const struct probe *probe = &survey->probes[i];

		rp_rows_add(&rows, json_object_new_int(probe->target->pid), NULL);
		rp_rows_add_string(&rows, probe->target->user);
		rp_rows_add(&rows, rp_json_string(probe->runtime), probe->runtime ? NULL : "?");
		rp_rows_add_string(&rows, probe->target->name);
		rp_rows_add_string(&rows, probe->target->command_line);
		rp_rows_add_string(&rows, probe->target->path);
	}
	status = rp_rows_print(&rows);
	rp_rows_fini(&rows);
	return status;
}

int rp_ps_print(const struct rp_target_list *list, enum rp_format format)
{
	struct survey survey;
	int status;

	if (survey_init(&survey, list)) {
		rp_tool_error("out of memory");
		return RP_EXIT_FAILURE;
	}
	ask_all(&survey);
	status = print(&survey, format);
	survey_fini(&survey);
	return status;
}

int rp_command_ps(const struct rp_tool_options *options)
{
	struct rp_target_list list;
	int ret = rp_target_list_scan(&list), status;

	if (ret) {
		rp_tool_error("cannot look for processes in %s: %s", rp_target_directory(),
			      strerror(-ret));
		return RP_EXIT_FAILURE;
	}
	status = rp_ps_print(&list, options->format);
	rp_target_list_fini(&list);
	return status;
}
