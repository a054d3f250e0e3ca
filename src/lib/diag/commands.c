/* SPDX-License-Identifier: MIT */
/* Executes one command of a client. */
#include "diag/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/provider.h>
#include <ringpipe/session.h>

#include "base/failure.h"
#include "base/host_table.h"
#include "base/text.h"
#include "diag/collect_command.h"
#include "diag/dump_command.h"
#include "diag/environment.h"
#include "diag/host_port.h"
#include "diag/list_command.h"
#include "diag/perfmap.h"
#include "diag/process.h"
#include "ipc/command_ids.h"

typedef enum rp_hresult (*handler)(struct rp_command *command, uint8_t id,
				   struct rp_cursor *payload);

static enum rp_hresult open_user_events(struct rp_command *command,
					const struct rp_collect *collect)
{
	int events_fd = command->passed_fd;
	enum rp_hresult hr;

	if (events_fd < 0) {
		command->outcome = RP_COMMAND_PASS;
		return RP_HRESULT_OK;
	}
	command->passed_fd = -1;
	hr = rp_trace_open_user_events(command->traces, collect, command->fd, events_fd,
				       &command->trace);
	if (hr == RP_HRESULT_OK) {
		command->outcome = RP_COMMAND_HOLD;
		rp_message_put_u64(command->reply, command->trace->id);
	}
	return hr;
}

/* Parse the request of a session, unless the host is shutting down. */
static enum rp_hresult parse_collect(struct rp_command *command, uint8_t id,
				     struct rp_cursor *payload, struct rp_collect **ret_collect)
{
	if (rp_host_state() == RP_HOST_ENDING) {
		snprintf(command->refusal, sizeof(command->refusal),
			 "the process is shutting down");
		return RP_HRESULT_INVALID_OPERATION;
	}
	return rp_collect_parse(id, payload, ret_collect);
}

/* Start the requested session, and free `collect`. */
static enum rp_hresult open_trace(struct rp_command *command, struct rp_collect *collect)
{
	enum rp_hresult hr;

	if (collect->tracepoints) {
		hr = open_user_events(command, collect);
	} else {
		hr = rp_trace_open(command->traces, collect, command->fd, command->peer,
				   &command->trace);
		if (hr == RP_HRESULT_OK)
			command->outcome = RP_COMMAND_STREAM;
	}
	free(collect);
	return hr;
}

static enum rp_hresult collect_tracing(struct rp_command *command, uint8_t id,
				       struct rp_cursor *payload)
{
	struct rp_collect *collect;
	enum rp_hresult hr;

	command->sends_more = command->passed_fd < 0 && rp_collect_has_descriptor(id, payload);
	hr = parse_collect(command, id, payload, &collect);
	return hr == RP_HRESULT_OK ? open_trace(command, collect) : hr;
}

static enum rp_hresult collect_batches(struct rp_command *command, uint8_t id,
				       struct rp_cursor *payload)
{
	struct rp_collect *collect;
	uint8_t shape = id == RP_OWN_FILTERED_BATCHES ? RP_COLLECT_5 : RP_COLLECT_4;
	enum rp_hresult hr = parse_collect(command, shape, payload, &collect);

	if (hr == RP_HRESULT_OK && collect->tracepoints) {
		free(collect);
		hr = RP_HRESULT_INVALID_ARGUMENT;
	}
	if (hr != RP_HRESULT_OK)
		return hr;
	collect->batch = true;
	collect->session_flags = 0;
	return open_trace(command, collect);
}

/* A command with options that .NET's commands do not have. */
static enum rp_hresult collect_with_options(struct rp_command *command, uint8_t id,
					    struct rp_cursor *payload)
{
	struct rp_collect *collect;
	uint32_t block_ms, coarse;
	enum rp_hresult hr;

	(void)id;
	if (rp_cursor_u32(payload, &block_ms) < 0 || rp_cursor_u32(payload, &coarse) < 0)
		return RP_HRESULT_BAD_ENCODING;
	if (coarse > 1)
		return RP_HRESULT_INVALID_ARGUMENT;
	hr = parse_collect(command, RP_COLLECT_4, payload, &collect);
	if (hr != RP_HRESULT_OK)
		return hr;
	collect->block_ms = block_ms;
	collect->session_flags |= coarse ? RP_SESSION_COARSE : 0u;
	hr = open_trace(command, collect);
	/* Other processes can be asked for their providers first. */
	if (hr == RP_HRESULT_OK)
		command->trace->reports_missing = command->suspended;
	return hr;
}

/* Parse a payload that contains only a session id. */
static enum rp_hresult session_id(struct rp_cursor *payload, uint64_t *ret_id)
{
	if (rp_cursor_u64(payload, ret_id) < 0 || rp_cursor_end(payload) < 0)
		return RP_HRESULT_BAD_ENCODING;
	return RP_HRESULT_OK;
}

/* An unknown session counts as stopped already: OK, as in the .NET runtime. */
static enum rp_hresult stop_tracing(struct rp_command *command, uint8_t id,
				    struct rp_cursor *payload)
{
	uint64_t session;
	enum rp_hresult hr = session_id(payload, &session);

	(void)id;
	if (hr != RP_HRESULT_OK)
		return hr;
	rp_message_put_u64(command->reply, session);
	command->trace = rp_trace_find(command->traces, session);
	if (command->trace) {
		rp_trace_stop(command->trace);
		command->outcome = RP_COMMAND_WAIT;
	}
	return RP_HRESULT_OK;
}

static enum rp_hresult process_info(struct rp_command *command, uint8_t id,
				    struct rp_cursor *payload)
{
	enum rp_process_info_version version =
		id == RP_GET_PROCESS_INFO ? RP_PROCESS_INFO_1 :
		id == RP_GET_PROCESS_INFO_2 ? RP_PROCESS_INFO_2 : RP_PROCESS_INFO_3;

	if (rp_cursor_end(payload) < 0)
		return RP_HRESULT_BAD_ENCODING;
	rp_process_reply(command->reply, version, command->cookie);
	return RP_HRESULT_OK;
}

static enum rp_hresult resume_runtime(struct rp_command *command, uint8_t id,
				      struct rp_cursor *payload)
{
	(void)id;
	if (rp_cursor_end(payload) < 0)
		return RP_HRESULT_BAD_ENCODING;
	command->outcome = RP_COMMAND_RESUME;
	rp_message_put_u32(command->reply, RP_HRESULT_OK);
	return RP_HRESULT_OK;
}

static enum rp_hresult process_environment(struct rp_command *command, uint8_t id,
					   struct rp_cursor *payload)
{
	(void)id;
	if (rp_cursor_end(payload) < 0)
		return RP_HRESULT_BAD_ENCODING;
	return rp_environment_reply(command->reply);
}

static enum rp_hresult set_environment(struct rp_command *command, uint8_t id,
				       struct rp_cursor *payload)
{
	(void)id;
	rp_message_put_u32(command->reply, RP_HRESULT_OK);
	return rp_environment_change(payload, command->suspended);
}

static enum rp_hresult enable_perf_map(struct rp_command *command, uint8_t id,
				       struct rp_cursor *payload)
{
	(void)id;
	rp_message_put_u32(command->reply, RP_HRESULT_OK);
	return rp_perfmap_command(payload);
}

static enum rp_hresult disable_perf_map(struct rp_command *command, uint8_t id,
					struct rp_cursor *payload)
{
	(void)id;
	if (rp_cursor_end(payload) < 0)
		return RP_HRESULT_BAD_ENCODING;
	rp_perfmap_disable();
	rp_message_put_u32(command->reply, RP_HRESULT_OK);
	return RP_HRESULT_OK;
}

static enum rp_hresult not_supported(struct rp_command *command, uint8_t id,
				     struct rp_cursor *payload)
{
	(void)command;
	(void)id;
	(void)payload;
	return RP_HRESULT_NOT_SUPPORTED;
}

static enum rp_hresult list_enabled(struct rp_command *command, uint8_t id,
				    struct rp_cursor *payload)
{
	(void)id;
	if (rp_cursor_end(payload) < 0)
		return RP_HRESULT_BAD_ENCODING;
	return rp_list_enabled(command->reply) < 0 ? RP_HRESULT_FAIL : RP_HRESULT_OK;
}

static enum rp_hresult list_events(struct rp_command *command, uint8_t id,
				   struct rp_cursor *payload)
{
	(void)id;
	if (rp_cursor_end(payload) < 0)
		return RP_HRESULT_BAD_ENCODING;
	return rp_list_events(command->reply) < 0 ? RP_HRESULT_FAIL : RP_HRESULT_OK;
}

static enum rp_hresult session_stats(struct rp_command *command, uint8_t id,
				     struct rp_cursor *payload)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_trace *trace;
	uint64_t session;
	enum rp_hresult hr = session_id(payload, &session);

	(void)id;
	if (hr != RP_HRESULT_OK)
		return hr;
	trace = rp_trace_find(command->traces, session);
	if (!trace)
		return RP_HRESULT_INVALID_ARGUMENT;
	if (rp_trace_stats(trace, &stats) < 0)
		return RP_HRESULT_FAIL;
	rp_message_put_u64(command->reply, stats.delivered);
	rp_message_put_u64(command->reply, stats.lost);
	rp_message_put_u64(command->reply, stats.bytes);
	rp_message_put_u32(command->reply, RP_LOSS_REASON_COUNT);
	for (unsigned int i = 0; i < RP_LOSS_REASON_COUNT; i++)
		rp_message_put_u64(command->reply, stats.lost_by[i]);
	rp_message_put_u32(command->reply, (uint32_t)stats.error);
	return RP_HRESULT_OK;
}

static enum rp_hresult refuse_recorder(struct rp_command *command, enum rp_hresult hr, int error)
{
	const char *call = rp_failed_call_for(-error);

	if (hr == RP_HRESULT_INVALID_OPERATION)
		snprintf(command->refusal, sizeof(command->refusal),
			 "a flight recorder runs already");
	else
		snprintf(command->refusal, sizeof(command->refusal), "%s%s%s",
			 rp_text_error(-error), call ? " from " : "", call ? call : "");
	return hr;
}

enum { RECORD_IN_FILES = 1, RECORD_COARSE = 2 };

static enum rp_hresult start_flight(struct rp_command *command, uint8_t id,
				    struct rp_cursor *payload)
{
	struct rp_collect *collect;
	enum rp_hresult hr;
	uint32_t kind;
	int error = 0;

	(void)id;
	if (rp_cursor_u32(payload, &kind) < 0)
		return RP_HRESULT_BAD_ENCODING;
	if (kind > RECORD_COARSE)
		return RP_HRESULT_INVALID_ARGUMENT;
	hr = parse_collect(command, RP_COLLECT_4, payload, &collect);
	if (hr != RP_HRESULT_OK)
		return hr;
	if (collect->buffer_bytes < RP_SESSION_OVERWRITE_MIN) {
		snprintf(command->refusal, sizeof(command->refusal),
			 "a flight recorder takes %u MB at least", RP_SESSION_OVERWRITE_MIN >> 20);
		free(collect);
		return RP_HRESULT_INVALID_ARGUMENT;
	}
	collect->session_flags |= kind == RECORD_COARSE ? RP_SESSION_COARSE : 0u;
	hr = rp_trace_open_recorder(command->traces, collect, kind == RECORD_IN_FILES,
				    &command->trace, &error);
	free(collect);
	if (hr != RP_HRESULT_OK)
		return refuse_recorder(command, hr, error);
	rp_message_put_u64(command->reply, command->trace->id);
	return RP_HRESULT_OK;
}

static enum rp_hresult open_rolling(struct rp_command *command, const char *path,
				    struct rp_cursor *payload)
{
	struct rp_collect *collect;
	enum rp_hresult hr;
	uint64_t quota;
	int error;

	if (rp_cursor_u64(payload, &quota) < 0)
		return RP_HRESULT_BAD_ENCODING;
	hr = parse_collect(command, RP_COLLECT_4, payload, &collect);
	if (hr != RP_HRESULT_OK)
		return hr;
	if (*path != '/' || quota < RP_SESSION_ROLL_MIN)
		hr = RP_HRESULT_INVALID_ARGUMENT;
	else
		hr = rp_trace_open_rolling(command->traces, collect, path, quota, &command->trace,
					   &error);
	free(collect);
	if (hr == RP_HRESULT_OK)
		rp_message_put_u64(command->reply, command->trace->id);
	else if (hr == RP_HRESULT_INVALID_OPERATION)
		snprintf(command->refusal, sizeof(command->refusal),
			 "a flight recorder runs already");
	else if (hr == RP_HRESULT_FAIL && error)
		snprintf(command->refusal, sizeof(command->refusal),
			 "it cannot roll files there: %s", rp_text_error(-error));
	return hr;
}

static enum rp_hresult roll(struct rp_command *command, uint8_t id, struct rp_cursor *payload)
{
	char *path = malloc(2 * (size_t)(payload->end - payload->at) + 1);
	enum rp_hresult hr = RP_HRESULT_BAD_ENCODING;

	(void)id;
	if (!path)
		return RP_HRESULT_FAIL;
	if (rp_message_get_string(payload, path) >= 0)
		hr = open_rolling(command, path, payload);
	free(path);
	return hr;
}

static enum rp_hresult stop_flight(struct rp_command *command, uint8_t id,
				     struct rp_cursor *payload)
{
	(void)id;
	if (rp_cursor_end(payload) < 0)
		return RP_HRESULT_BAD_ENCODING;
	command->trace = rp_trace_find_recorder(command->traces);
	if (!command->trace) {
		snprintf(command->refusal, sizeof(command->refusal), "no flight recorder runs");
		return RP_HRESULT_INVALID_OPERATION;
	}
	rp_message_put_u64(command->reply, command->trace->id);
	rp_trace_finish(command->trace);
	command->outcome = RP_COMMAND_WAIT;
	return RP_HRESULT_OK;
}

static enum rp_hresult send_snapshot(struct rp_command *command, uint8_t id,
				     struct rp_cursor *payload)
{
	uint64_t session;
	enum rp_hresult hr = session_id(payload, &session);

	(void)id;
	if (hr == RP_HRESULT_OK)
		hr = rp_sending_open(command->sendings, session, command->fd);
	if (hr == RP_HRESULT_OK)
		command->outcome = RP_COMMAND_SEND;
	else if (hr == RP_HRESULT_FAIL)
		snprintf(command->refusal, sizeof(command->refusal),
			 "too many snapshots are under way");
	return hr;
}

static enum rp_hresult write_dump(struct rp_command *command, uint8_t id,
				  struct rp_cursor *payload)
{
	struct rp_dump_request request = {
		.reply = id == RP_OWN_DUMP ? RP_DUMP_REPLY_FRAMES :
			 id == RP_DUMP_3 ? RP_DUMP_REPLY_TEXT : RP_DUMP_REPLY_HRESULT,
	};
	enum rp_hresult hr = rp_dump_parse(payload, &request, command->refusal);

	if (hr == RP_HRESULT_OK) {
		hr = rp_dump_open(command->dump, &request, command->fd, command->refusal);
		free(request.path);
	}
	if (hr == RP_HRESULT_OK)
		command->outcome = RP_COMMAND_DUMP;
	if (request.reply == RP_DUMP_REPLY_HRESULT)
		command->refusal[0] = '\0';
	return hr;
}

static enum rp_hresult host_command(struct rp_command *command, uint8_t id,
				    struct rp_cursor *payload)
{
	return rp_host_run_command(id, payload, command->reply);
}

/* All known commands. After "unknown command", clients retry with an older command. */
static const struct {
	uint8_t set;
	uint8_t id;
	handler handle;
} commands[] = {
	{ RP_MESSAGE_DUMP, RP_DUMP_1, write_dump },
	{ RP_MESSAGE_DUMP, RP_DUMP_2, write_dump },
	{ RP_MESSAGE_DUMP, RP_DUMP_3, write_dump },
	{ RP_MESSAGE_EVENTPIPE, RP_STOP_TRACING, stop_tracing },
	{ RP_MESSAGE_EVENTPIPE, RP_COLLECT_1, collect_tracing },
	{ RP_MESSAGE_EVENTPIPE, RP_COLLECT_2, collect_tracing },
	{ RP_MESSAGE_EVENTPIPE, RP_COLLECT_3, collect_tracing },
	{ RP_MESSAGE_EVENTPIPE, RP_COLLECT_4, collect_tracing },
	{ RP_MESSAGE_EVENTPIPE, RP_COLLECT_5, collect_tracing },
	{ RP_MESSAGE_EVENTPIPE, RP_COLLECT_6, collect_tracing },
	{ RP_MESSAGE_PROFILER, RP_ATTACH_PROFILER, not_supported },
	{ RP_MESSAGE_PROFILER, RP_STARTUP_PROFILER, not_supported },
	{ RP_MESSAGE_PROCESS, RP_GET_PROCESS_INFO, process_info },
	{ RP_MESSAGE_PROCESS, RP_RESUME_RUNTIME, resume_runtime },
	{ RP_MESSAGE_PROCESS, RP_GET_ENVIRONMENT, process_environment },
	{ RP_MESSAGE_PROCESS, RP_SET_VARIABLE, set_environment },
	{ RP_MESSAGE_PROCESS, RP_GET_PROCESS_INFO_2, process_info },
	{ RP_MESSAGE_PROCESS, RP_ENABLE_PERF_MAP, enable_perf_map },
	{ RP_MESSAGE_PROCESS, RP_DISABLE_PERF_MAP, disable_perf_map },
	{ RP_MESSAGE_PROCESS, RP_APPLY_STARTUP_HOOK, not_supported },
	{ RP_MESSAGE_PROCESS, RP_GET_PROCESS_INFO_3, process_info },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_LIST_ENABLED, list_enabled },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_STATS, session_stats },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_DUMP, write_dump },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_BATCHES, collect_batches },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_FLIGHT, start_flight },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_STOP_FLIGHT, stop_flight },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_SNAPSHOT, send_snapshot },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_ROLL, roll },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_COLLECT, collect_with_options },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_LIST_EVENTS, list_events },
	{ RP_MESSAGE_RINGPIPE, RP_OWN_FILTERED_BATCHES, collect_batches },
};

static handler find_handler(uint8_t set, uint8_t id)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (commands[i].set == set && commands[i].id == id)
			return commands[i].handle;
	}
	return NULL;
}

/* Name the system call that failed, unless the handler gave a reason. */
static void name_failed_call(struct rp_command *command, enum rp_hresult hr)
{
	if (hr == RP_HRESULT_FAIL && !command->refusal[0] && rp_failed_call)
		snprintf(command->refusal, sizeof(command->refusal),
			 "the system call %s failed there", rp_failed_call);
}

void rp_command_run(struct rp_command *command, const uint8_t *bytes, size_t size)
{
	struct rp_message message;
	enum rp_hresult hr = RP_HRESULT_UNKNOWN_COMMAND;
	handler handle;

	command->outcome = RP_COMMAND_REPLY;
	command->trace = NULL;
	command->sends_more = false;
	command->refusal[0] = '\0';
	rp_failed_call = NULL;
	rp_message_open(bytes, size, &message);
	handle = rp_host_has_command_set(message.set) ? host_command :
		 find_handler(message.set, message.id);
	if (handle) {
		rp_message_begin(command->reply, RP_MESSAGE_SERVER, RP_MESSAGE_OK);
		hr = handle(command, message.id, &message.payload);
	}
	if (hr == RP_HRESULT_OK && command->reply->error)
		hr = RP_HRESULT_FAIL;
	name_failed_call(command, hr);
	if (hr == RP_HRESULT_OK)
		rp_message_end(command->reply);
	else if (command->refusal[0])
		rp_message_refuse_because(command->reply, hr, command->refusal);
	else
		rp_message_refuse(command->reply, hr);
}
