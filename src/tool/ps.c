/* SPDX-License-Identifier: MIT */
/*
 * ringpipe ps: the processes that can be traced. All are asked at once what they are, with one
 * deadline, so a process that hangs costs half a second and a "?".
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/exchange.h"
#include "tool/json.h"
#include "tool/signals.h"
#include "tool/table.h"
#include "tool/target.h"
#include "tool/tool.h"

#define DEADLINE_MS 500

/* Process commands, newest first: older runtimes do not know the newer ones. */
static const uint8_t info_commands[] = { 0x08, 0x04, 0x00 };
#define INFO_COMMANDS (sizeof(info_commands) / sizeof(info_commands[0]))

struct probe {
	const struct rp_target *target;
	struct rp_exchange exchange;
	size_t command;			/* index in info_commands */
	bool running;
	char *runtime;			/* or NULL: not known */
};

struct survey {
	struct rp_wire_message *requests;	/* one for each of info_commands */
	struct probe *probes;
	struct pollfd *waits;
	size_t count;
};

/*
 * ProcessInfo: u64 pid, GUID cookie, command line, OS, architecture. ProcessInfo2 adds the entry
 * point's name and the runtime's version; ProcessInfo3 puts a u32 version in front.
 */
static char *read_runtime(const struct rp_exchange *exchange, uint8_t command)
{
	struct rp_wire_cursor cursor = { exchange->payload, exchange->payload_bytes, false };
	static const char ours[] = "-ringpipe.";
	char *version, *mark, *runtime = NULL;

	if (command == 0x08)
		rp_wire_skip(&cursor, 4);
	rp_wire_skip(&cursor, 8 + 16);
	for (int i = 0; i < (command == 0x00 ? 3 : 4); i++)
		free(rp_wire_get_string(&cursor));
	if (command == 0x00)
		return cursor.failed ? NULL : strdup(".NET");
	version = rp_wire_get_string(&cursor);
	if (!version)
		return NULL;
	/* libringpipe takes part as a .NET version with a suffix: 9.0.0-ringpipe.0.1.0 */
	mark = strstr(version, ours);
	if (asprintf(&runtime, "%s %s", mark ? "ringpipe" : ".NET",
		     mark ? mark + sizeof(ours) - 1 : version) < 0)
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

/* Steps all that run. Return: how many still do; the shortest wait goes into `timeout_ms`. */
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
	free(survey->requests);
	free(survey->probes);
	free(survey->waits);
}

static int survey_init(struct survey *survey, const struct rp_target_list *list)
{
	*survey = (struct survey){
		.requests = malloc(INFO_COMMANDS * sizeof(*survey->requests)),
		.probes = calloc(list->count + 1, sizeof(*survey->probes)),
		.waits = calloc(list->count + 1, sizeof(*survey->waits)),
		.count = list->count,
	};
	if (!survey->requests || !survey->probes || !survey->waits) {
		survey_fini(survey);
		return -ENOMEM;
	}
	for (size_t i = 0; i < INFO_COMMANDS; i++) {
		rp_wire_begin(&survey->requests[i], RP_SET_PROCESS, info_commands[i]);
		rp_wire_end(&survey->requests[i]);
	}
	for (size_t i = 0; i < list->count; i++) {
		survey->probes[i].target = &list->rows[i];
		survey->probes[i].exchange.fd = -1;
	}
	return 0;
}

static int print_text(const struct survey *survey)
{
	static const char *const titles[] = { "PID", "USER", "RUNTIME", "NAME", "COMMAND", NULL };
	struct rp_table table;
	int ret;

	rp_table_init(&table, titles, "rllll");
	for (size_t i = 0; i < survey->count; i++) {
		const struct probe *probe = &survey->probes[i];

		rp_table_addf(&table, "%d", probe->target->pid);
		rp_table_add(&table, probe->target->user);
		rp_table_add(&table, probe->runtime ? probe->runtime : "?");
		rp_table_add(&table, probe->target->name);
		rp_table_add(&table, probe->target->command_line);
	}
	ret = rp_table_print(&table);
	rp_table_fini(&table);
	if (ret)
		rp_tool_error("out of memory");
	return ret ? RP_EXIT_FAILURE : RP_EXIT_OK;
}

static int print_json(const struct survey *survey)
{
	struct json_object *rows = json_object_new_array();

	for (size_t i = 0; i < survey->count; i++) {
		const struct probe *probe = &survey->probes[i];
		struct json_object *row = json_object_new_object();

		json_object_object_add(row, "pid", json_object_new_int(probe->target->pid));
		json_object_object_add(row, "user", rp_json_string(probe->target->user));
		json_object_object_add(row, "runtime", rp_json_string(probe->runtime));
		json_object_object_add(row, "name", rp_json_string(probe->target->name));
		json_object_object_add(row, "command",
				       rp_json_string(probe->target->command_line));
		json_object_object_add(row, "socket", rp_json_string(probe->target->path));
		json_object_array_add(rows, row);
	}
	return rp_json_print(rows);
}

int rp_command_ps(const struct rp_tool_options *options)
{
	struct rp_target_list list;
	struct survey survey;
	int ret = rp_target_list_scan(&list), status;

	if (ret) {
		rp_tool_error("cannot look for processes in %s: %s", rp_target_directory(),
			      strerror(-ret));
		return RP_EXIT_FAILURE;
	}
	if (survey_init(&survey, &list)) {
		rp_tool_error("out of memory");
		rp_target_list_fini(&list);
		return RP_EXIT_FAILURE;
	}
	ask_all(&survey);
	status = options->given & RP_OPTION_JSON ? print_json(&survey) : print_text(&survey);
	survey_fini(&survey);
	rp_target_list_fini(&list);
	return status;
}
