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
#include <time.h>

#include "events.h"

enum { OUTER, IN_SCRIPT, DEPTHS };

struct command {
	struct rp_activity activity;
	uint64_t begun_ns;		/* 0: none runs */
	size_t name_bytes;
	char name[NAME_BYTES];
};

static struct command running[DEPTHS];
static const struct command *current;	/* whose activity is that of the thread, or NULL */
static bool may_run_script;		/* the command that runs, or the last one */
static const struct rp_activity no_activity;

static const char *latency_class(uint64_t duration_ns)
{
	static const char *const names[] = {
		"below 100 us", "below 1 ms", "below 10 ms", "below 100 ms", "100 ms or more",
	};
	uint64_t limit_ns = 100000;
	size_t i = 0;

	for (; i < 4 && duration_ns >= limit_ns; i++)
		limit_ns *= 10;
	return names[i];
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Makes the activity of the command that of the thread, for the events that it causes. */
static void set_activity(const struct command *command)
{
	if (current != command)
		rp_activity_set(command ? &command->activity : &no_activity);
	current = command;
}

static void end(struct command *command, const char *ended_by, uint64_t now)
{
	uint64_t duration_ns = now - command->begun_ns;

	if (command->begun_ns == 0)
		return;
	command->begun_ns = 0;
	set_activity(command);
	redis_command_stop(command->name, command->name_bytes, latency_class(duration_ns), ended_by,
			   duration_ns);
	slow_log_note(duration_ns);
}

void command_end_all(void)
{
	uint64_t now;

	if (!current)
		return;
	now = now_ns();
	end(&running[IN_SCRIPT], "event loop", now);
	end(&running[OUTER], "event loop", now);
	set_activity(NULL);
}

bool command_is_wanted(void)
{
	return redis_command_start_enabled() || redis_command_stop_enabled() ||
	       redis_slow_command_enabled();
}

static void set_name(struct command *command, const struct redis_string *string)
{
	size_t bytes;
	const char *text = redis->StringPtrLen(string, &bytes);

	command->name_bytes = bytes < NAME_BYTES ? bytes : NAME_BYTES;
	for (size_t i = 0; i < command->name_bytes; i++)
		command->name[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20)
								    : text[i];
}

/* The server's own search for keys, for commands that are not in the table. */
static int search_keys(struct command *command, struct redis_filtered *filtered, int arguments,
		       int *ret_first)
{
	static const char unknown[] = "(unknown)";
	struct redis_string **strings = calloc((size_t)arguments, sizeof(*strings));
	int count = 0, *places;

	for (int i = 0; strings && i < arguments; i++)
		strings[i] = redis->CommandFilterArgGet(filtered, i);
	errno = ENOENT;
	places = strings ? redis->GetCommandKeys(NULL, strings, arguments, &count) : NULL;
	/* A name that is no command may be part of anything, such as a password. */
	if (!places && errno == ENOENT) {
		command->name_bytes = sizeof(unknown) - 1;
		memcpy(command->name, unknown, command->name_bytes);
	}
	if (places) {
		*ret_first = places[0];
		redis->Free(places);
	}
	free(strings);
	return count;
}

static void write_start(struct command *command, struct redis_filtered *filtered, uint64_t client)
{
	struct key key = { .name = "" };
	int first = 0, count = redis->CommandFilterArgsCount(filtered), keys;
	uint64_t sum = 0;
	size_t bytes;

	for (int i = 0; i < count; i++) {
		redis->StringPtrLen(redis->CommandFilterArgGet(filtered, i), &bytes);
		sum += bytes;
	}
	set_name(command, redis->CommandFilterArgGet(filtered, 0));
	keys = command_table_find(command->name, command->name_bytes, count, &first);
	if (keys < 0)
		keys = search_keys(command, filtered, count, &first);
	if (keys > 0)
		key = key_of(redis->CommandFilterArgGet(filtered, first));
	/* eval, evalsha, fcall, their variants, and exec */
	if (command == &running[OUTER])
		may_run_script = command->name[0] == 'e' || command->name[0] == 'f';
	redis_command_start(command->name, command->name_bytes, client, (uint32_t)count,
			    (uint32_t)keys, sum, key.hash, key.name, key.bytes);
}

static void begin_activity(struct command *command, const char *traceparent, size_t bytes)
{
	uint8_t flags;

	if (!traceparent ||
	    rp_traceparent_parse(traceparent, bytes, &command->activity, &flags) < 0) {
		rp_activity_generate(&command->activity.id);
		command->activity.related = command == &running[OUTER] ? no_activity.id
								       : running[OUTER].activity.id;
	}
	current = NULL;
	set_activity(command);
}

void command_begin(struct redis_filtered *filtered, const char *traceparent, size_t bytes)
{
	struct command *command;
	uint64_t client = 0, now = now_ns();
	int depth = OUTER;

	/* The server takes long for the flags, so the module asks only where they may be set. */
	if (running[OUTER].begun_ns && may_run_script &&
	    (redis->GetContextFlags(NULL) & REDIS_CONTEXT_SCRIPT))
		depth = IN_SCRIPT;
	command = &running[depth];
	end(&running[IN_SCRIPT], "next command", now);
	if (depth == OUTER)
		end(&running[OUTER], "next command", now);
	if (!command_is_wanted()) {
		set_activity(NULL);
		return;
	}
	if (redis->CommandFilterGetClientId)
		client = redis->CommandFilterGetClientId(filtered);
	if (!traceparent && depth == OUTER) {
		traceparent = client_trace_find(client);
		bytes = RP_TRACEPARENT_SIZE - 1;
	}
	begin_activity(command, traceparent, bytes);
	command->begun_ns = now;
	tracing_stats.spans++;
	write_start(command, filtered, client);
}
