/* SPDX-License-Identifier: MIT */
/*
 * Spans of commands. The server calls the filter before each command, and has no hook after it. A
 * span therefore ends when the next command begins, or when the event loop is about to wait. The
 * commands of a script are children of the command that runs the script.
 */
#include "tracing.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "events.h"

enum { OUTER, IN_SCRIPT, DEPTHS };

struct command {
	struct rp_activity activity;
	uint64_t begun_ns;		/* 0: none runs */
};

static struct command running[DEPTHS];
static const struct command *current;	/* whose activity is that of the thread, or NULL */
static bool may_run_script;		/* the command that runs, or the last one */
static const struct rp_activity no_activity;

/* The class of a duration: below 100 us, 1 ms, 10 ms or 100 ms, or longer (0). */
static uint32_t class_below_us(uint64_t duration_ns)
{
	return duration_ns < 100000 ? 100 : duration_ns < 1000000 ? 1000 :
	       duration_ns < 10000000 ? 10000 : duration_ns < 100000000 ? 100000 : 0;
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

static void end(struct command *command, bool by_command, uint64_t now)
{
	uint64_t duration_ns = now - command->begun_ns;

	if (command->begun_ns == 0)
		return;
	command->begun_ns = 0;
	set_activity(command);
	redis_command_stop(duration_ns, class_below_us(duration_ns), by_command);
	slow_log_note(duration_ns);
}

void command_end_all(void)
{
	uint64_t now;

	if (!current)
		return;
	now = now_ns();
	end(&running[IN_SCRIPT], false, now);
	end(&running[OUTER], false, now);
	set_activity(NULL);
}

bool command_is_wanted(void)
{
	return redis_command_start_enabled() || redis_command_stop_enabled() ||
	       redis_slow_command_enabled();
}

/*
 * The server's own search for keys, for commands that are not in the table. Return -1 if the server
 * has no such command.
 */
static int search_keys(struct redis_filtered *filtered, int arguments, int *ret_first)
{
	struct redis_string **strings = calloc((size_t)arguments, sizeof(*strings));
	int count = 0, *places;

	for (int i = 0; strings && i < arguments; i++)
		strings[i] = redis->CommandFilterArgGet(filtered, i);
	errno = ENOENT;
	places = strings ? redis->GetCommandKeys(NULL, strings, arguments, &count) : NULL;
	if (!places && errno == ENOENT)
		count = -1;
	if (places) {
		*ret_first = places[0];
		redis->Free(places);
	}
	free(strings);
	return count;
}

static void write_start(const struct command *command, struct redis_filtered *filtered,
			const char *name, size_t name_bytes, uint64_t client)
{
	struct key key = { .name = "" };
	char lower[NAME_BYTES];
	int first = 0, count = redis->CommandFilterArgsCount(filtered), keys;
	uint64_t sum = name_bytes;

	keys = command_table_find(&name, name_bytes, count, &first);
	if (keys < 0) {
		keys = search_keys(filtered, count, &first);
		name_bytes = name_bytes < NAME_BYTES ? name_bytes : NAME_BYTES;
		for (size_t i = 0; i < name_bytes; i++)
			lower[i] = (char)tolower((uint8_t)name[i]);
		name = lower;
	}
	/* A name that is no command may be part of anything, such as a password. */
	if (keys < 0) {
		keys = 0;
		name = "(unknown)";
		name_bytes = strlen(name);
	}
	for (int i = 1; i < count; i++) {
		size_t bytes;
		const char *text =
			redis->StringPtrLen(redis->CommandFilterArgGet(filtered, i), &bytes);

		sum += bytes;
		if (keys > 0 && i == first)
			key = key_of(text, bytes);
	}
	/* eval, evalsha, fcall, their variants, and exec */
	if (command == &running[OUTER])
		may_run_script = name_bytes > 0 && (name[0] == 'e' || name[0] == 'f');
	redis_command_start(name, name_bytes, client, (uint32_t)count, (uint32_t)keys, sum,
			    key.hash, key.name, key.bytes);
}

/* `of_client` is the trace that the client has set, or NULL. */
static void begin_activity(struct command *command, const char *traceparent, size_t bytes,
			   const struct rp_activity *of_client)
{
	uint8_t flags;

	if (!traceparent && of_client) {
		command->activity = *of_client;
	} else if (!traceparent || rp_traceparent_parse(traceparent, bytes, &command->activity,
							&flags) < 0) {
		rp_activity_generate(&command->activity.id);
		command->activity.related = command == &running[OUTER] ? no_activity.id
								       : running[OUTER].activity.id;
	}
	current = NULL;
	set_activity(command);
}

void command_begin(struct redis_filtered *filtered, const char *name, size_t name_bytes,
		   const char *traceparent, size_t bytes)
{
	struct command *command;
	uint64_t client = 0, now = now_ns();
	int depth = OUTER;

	/* The server takes long for the flags, so the module asks only where they may be set. */
	if (running[OUTER].begun_ns && may_run_script &&
	    (redis->GetContextFlags(NULL) & REDIS_CONTEXT_SCRIPT))
		depth = IN_SCRIPT;
	command = &running[depth];
	end(&running[IN_SCRIPT], true, now);
	if (depth == OUTER)
		end(&running[OUTER], true, now);
	if (!command_is_wanted()) {
		set_activity(NULL);
		return;
	}
	if (redis->CommandFilterGetClientId)
		client = redis->CommandFilterGetClientId(filtered);
	begin_activity(command, traceparent, bytes,
		       depth == OUTER ? client_trace_find(client) : NULL);
	command->begun_ns = now;
	tracing_stats.spans++;
	write_start(command, filtered, name, name_bytes, client);
}
