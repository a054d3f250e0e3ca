/* SPDX-License-Identifier: MIT */
/*
 * The slow log. The server has no hook for its entries, but the time of a span is never below the
 * time that the server measures. So after each command whose span took longer than the limit, the
 * log is read for entries above the last one seen.
 */
#include "tracing.h"

#include <stdlib.h>
#include <string.h>

#include "events.h"

#define ENTRIES_MAX 128LL

static uint64_t limit_ns = UINT64_MAX;
static bool is_pending;
static long long last_entry = -1;

const char *reply_text(struct redis_reply *reply, size_t *ret_bytes)
{
	const char *text = reply ? redis->CallReplyStringPtr(reply, ret_bytes) : NULL;

	if (!text)
		*ret_bytes = 0;
	return text ? text : "";
}

long long reply_integer(struct redis_reply *array, size_t index)
{
	return redis->CallReplyInteger(redis->CallReplyArrayElement(array, index));
}

void slow_log_configure(struct redis_context *context)
{
	struct redis_reply *reply = redis->Call(context, "CONFIG", "cc", "GET",
						"slowlog-log-slower-than");
	char number[24] = "";
	const char *text;
	size_t bytes;

	if (!reply)
		return;
	text = reply_text(redis->CallReplyArrayElement(reply, 1), &bytes);
	if (bytes > 0 && bytes < sizeof(number)) {
		memcpy(number, text, bytes);
		/* A negative limit disables the log. */
		limit_ns = number[0] == '-' ? UINT64_MAX : strtoull(number, NULL, 10);
		limit_ns = limit_ns > UINT64_MAX / 1000 ? UINT64_MAX : limit_ns * 1000;
	}
	redis->FreeCallReply(reply);
}

void slow_log_note(uint64_t duration_ns)
{
	is_pending |= duration_ns >= limit_ns && redis_slow_command_enabled();
}

/* An entry is number, time, microseconds, arguments, address of the client, name of the client. */
static void write_entry(struct redis_reply *entry, long long number)
{
	struct redis_reply *arguments = redis->CallReplyArrayElement(entry, 3);
	const char *name, *address;
	size_t name_bytes, address_bytes;

	name = reply_text(redis->CallReplyArrayElement(arguments, 0), &name_bytes);
	address = reply_text(redis->CallReplyArrayElement(entry, 4), &address_bytes);
	redis_slow_command((uint64_t)number, name, name_bytes,
			   (uint32_t)redis->CallReplyLength(arguments),
			   (uint64_t)reply_integer(entry, 2), reply_integer(entry, 1) * 1000000000,
			   address, address_bytes);
	tracing_stats.slow_commands++;
}

void slow_log_read(struct redis_context *context, bool skips)
{
	struct redis_reply *entries;
	size_t count;

	if (!is_pending && !skips)
		return;
	is_pending = false;
	entries = redis->Call(context, "SLOWLOG", "cl", "GET", skips ? 1LL : ENTRIES_MAX);
	count = entries ? redis->CallReplyLength(entries) : 0;
	/* The newest entry is the first. */
	while (count-- > 0) {
		struct redis_reply *entry = redis->CallReplyArrayElement(entries, count);
		long long number = reply_integer(entry, 0);

		if (number > last_entry && !skips)
			write_entry(entry, number);
		last_entry = number > last_entry ? number : last_entry;
	}
	if (entries)
		redis->FreeCallReply(entries);
}
