/* SPDX-License-Identifier: MIT */
/*
 * Spans of commands. The server calls the filter before each command, and has no hook after it. A
 * span therefore ends when the next command begins, or when the event loop is about to wait. The
 * commands of a script are children of the command that runs the script.
 */
#include "tracing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"

#define NAME_BYTES 32
#define ARGUMENTS_ON_STACK 64

enum { OUTER, IN_SCRIPT, DEPTHS };

struct command {
	struct rp_span span;
	size_t name_bytes;
	char name[NAME_BYTES];
};

/* The arguments of a command as one array. */
struct arguments {
	struct redis_string **strings;
	struct redis_string *on_stack[ARGUMENTS_ON_STACK];
	int count;
	uint64_t bytes;
};

static struct command running[DEPTHS];
static bool may_run_script;		/* the command that runs, or the last one */
static const struct rp_activity no_activity;

static const char *latency_class(uint64_t duration_ns)
{
	static const struct {
		uint64_t below_ns;
		const char *name;
	} classes[] = {
		{ 100000, "below 100 us" }, { 1000000, "below 1 ms" }, { 10000000, "below 10 ms" },
		{ 100000000, "below 100 ms" },
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (duration_ns < classes[i].below_ns)
			return classes[i].name;
	return "100 ms or more";
}

static void end(struct command *command, const char *ended_by)
{
	struct rp_activity before;
	uint64_t duration_ns;

	if (command->span.begun_ns == 0)
		return;
	duration_ns = rp_span_end(&command->span, &before);
	redis_command_stop(command->name, command->name_bytes, latency_class(duration_ns), ended_by,
			   duration_ns);
	slow_log_note(duration_ns);
}

static void end_all(const char *ended_by)
{
	if (running[OUTER].span.begun_ns == 0 && running[IN_SCRIPT].span.begun_ns == 0)
		return;
	end(&running[IN_SCRIPT], ended_by);
	end(&running[OUTER], ended_by);
	rp_activity_set(&no_activity);
}

void command_end_all(void)
{
	end_all("event loop");
}

bool command_is_wanted(void)
{
	return redis_command_start_enabled() || redis_command_stop_enabled() ||
	       redis_slow_command_enabled();
}

static bool get_arguments(struct redis_filtered *command, struct arguments *arguments)
{
	size_t bytes;

	arguments->count = redis->CommandFilterArgsCount(command);
	arguments->strings = arguments->on_stack;
	arguments->bytes = 0;
	if (arguments->count > ARGUMENTS_ON_STACK) {
		arguments->strings = calloc((size_t)arguments->count, sizeof(*arguments->strings));
		if (!arguments->strings)
			return false;
	}
	for (int i = 0; i < arguments->count; i++) {
		arguments->strings[i] = redis->CommandFilterArgGet(command, i);
		redis->StringPtrLen(arguments->strings[i], &bytes);
		arguments->bytes += bytes;
	}
	return true;
}

/* A name that is no command may be part of anything, such as a password, so it is not shown. */
static void set_name(struct command *command, const struct redis_string *string, bool is_known)
{
	static const char unknown[] = "(unknown)";
	const char *text = unknown;
	size_t bytes = sizeof(unknown) - 1;

	if (is_known)
		text = redis->StringPtrLen(string, &bytes);
	command->name_bytes = bytes < NAME_BYTES ? bytes : NAME_BYTES;
	for (size_t i = 0; i < command->name_bytes; i++)
		command->name[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20)
								    : text[i];
}

static void write_start(struct command *command, struct redis_filtered *filtered, uint64_t client)
{
	struct key key = { .name = "" };
	struct arguments arguments;
	int key_count = 0, *keys;

	if (!get_arguments(filtered, &arguments))
		return;
	errno = 0;
	keys = redis->GetCommandKeys(NULL, arguments.strings, arguments.count, &key_count);
	set_name(command, arguments.strings[0], keys || errno != ENOENT);
	if (keys)
		key = key_of(arguments.strings[keys[0]]);
	/* eval, evalsha, fcall, their variants, and exec */
	if (command == &running[OUTER])
		may_run_script = memchr("ef", command->name[0], 2) != NULL;
	redis_command_start(command->name, command->name_bytes, client, (uint32_t)arguments.count,
			    keys ? (uint32_t)key_count : 0, arguments.bytes, key.hash, key.name,
			    key.bytes);
	if (keys)
		redis->Free(keys);
	if (arguments.strings != arguments.on_stack)
		free(arguments.strings);
}

/* Makes the activity of the command that of the thread, for the events that it causes. */
static void begin_activity(struct rp_span *span, const char *traceparent, size_t bytes)
{
	struct rp_activity before;
	uint8_t flags;

	rp_span_begin(span, &before);
	if (!traceparent ||
	    rp_traceparent_parse(traceparent, bytes, &span->activity, &flags) < 0)
		return;
	rp_activity_set(&span->activity);
}

void command_begin(struct redis_filtered *filtered, const char *traceparent, size_t bytes)
{
	struct command *command;
	uint64_t client = 0;
	int depth = OUTER;

	/* The server takes long for the flags, so the module asks only where they may be set. */
	if (running[OUTER].span.begun_ns && may_run_script &&
	    (redis->GetContextFlags(NULL) & REDIS_CONTEXT_SCRIPT))
		depth = IN_SCRIPT;
	command = &running[depth];
	if (depth == OUTER)
		end_all("next command");
	else
		end(command, "next command");
	if (!command_is_wanted())
		return;
	if (redis->CommandFilterGetClientId)
		client = redis->CommandFilterGetClientId(filtered);
	if (!traceparent && depth == OUTER) {
		traceparent = client_trace_find(client);
		bytes = RP_TRACEPARENT_SIZE - 1;
	}
	if (depth == IN_SCRIPT)
		rp_activity_set(&running[OUTER].span.activity);
	begin_activity(&command->span, traceparent, bytes);
	tracing_stats.spans++;
	write_start(command, filtered, client);
}
