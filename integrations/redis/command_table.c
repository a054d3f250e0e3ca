/* SPDX-License-Identifier: MIT */
/*
 * Where each command of the server has its keys. RedisModule_GetCommandKeys() executes about 800
 * instructions for a GET, a sixth of those of the GET itself, so this table answers for the
 * commands whose keys are at fixed places.
 */
#include "tracing.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define SLOTS 1024u		/* a power of 2; redis 7.0 has 240 commands */

struct command_keys {
	char name[NAME_BYTES];		/* as the server writes it */
	size_t bytes;			/* of the name; 0: the slot is free */
	int arity;			/* number of arguments; -N: N or more */
	int first, last, step;		/* a negative last key counts from the end */
};

static struct command_keys table[SLOTS];
static size_t used;

static struct command_keys *slot_of(const char *name, size_t bytes)
{
	uint32_t hash = 2166136261u;	/* FNV-1a */
	struct command_keys *keys;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint32_t)tolower((uint8_t)name[i])) * 16777619u;
	for (;; hash++) {
		keys = &table[hash % SLOTS];
		if (keys->bytes == 0 ||
		    (keys->bytes == bytes && !strncasecmp(keys->name, name, bytes)))
			return keys;
	}
}

/* An entry is name, arity, flags, first key, last key, step, and in the end the subcommands. */
static void add(struct redis_reply *entry)
{
	size_t bytes, flags_bytes;
	const char *flags = redis->CallReplyProto(redis->CallReplyArrayElement(entry, 2),
						  &flags_bytes);
	const char *name = reply_text(redis->CallReplyArrayElement(entry, 0), &bytes);
	struct redis_reply *subcommands = redis->CallReplyArrayElement(entry, 9);
	struct command_keys *keys;

	/* A longer name may have been cut. */
	if (bytes == 0 || bytes >= NAME_BYTES || 2 * used >= SLOTS || !flags ||
	    memmem(flags, flags_bytes, "movablekeys", 11) || !subcommands ||
	    redis->CallReplyLength(subcommands) > 0)
		return;
	keys = slot_of(name, bytes);
	used += keys->bytes == 0;
	memcpy(keys->name, name, bytes);
	keys->bytes = bytes;
	keys->arity = (int)reply_integer(entry, 1);
	keys->first = (int)reply_integer(entry, 3);
	keys->last = (int)reply_integer(entry, 4);
	keys->step = (int)reply_integer(entry, 5);
}

void command_table_read(struct redis_context *context)
{
	struct redis_reply *entries = redis->Call(context, "COMMAND", "");
	size_t count = entries ? redis->CallReplyLength(entries) : 0;

	for (size_t i = 0; i < count; i++)
		add(redis->CallReplyArrayElement(entries, i));
	if (entries)
		redis->FreeCallReply(entries);
}

int command_table_find(const char **name, size_t bytes, int arguments, int *ret_first)
{
	const struct command_keys *keys = bytes < NAME_BYTES ? slot_of(*name, bytes) : NULL;
	int last;

	if (!keys || keys->bytes == 0)
		return -1;
	*name = keys->name;
	last = keys->last < 0 ? arguments + keys->last : keys->last;
	if (keys->first <= 0 || keys->step <= 0 || last >= arguments || last < keys->first ||
	    (keys->arity < 0 ? arguments < -keys->arity : arguments != keys->arity))
		return 0;
	*ret_first = keys->first;
	return (last - keys->first) / keys->step + 1;
}
