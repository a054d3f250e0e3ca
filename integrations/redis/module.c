/* SPDX-License-Identifier: MIT */
/*
 * A module for redis and Valkey. This object registers the command ringpipe.trace and, while it is
 * needed, the filter that sees all commands. It loads ringpipe_tracing.so, which writes the events.
 * Without ringpipe_tracing.so, all commands work all the same, and INFO states why it is missing.
 */
#include "module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define VERSION 1
#define COMMAND "ringpipe.trace"
#define COMMAND_BYTES (sizeof(COMMAND) - 1)

static struct redis_api api;
static struct tracing tracing;		/* empty without ringpipe_tracing.so */
static char reason[512];		/* why there is no tracing */
static bool shows_keys;
static struct redis_context *own_context;
static struct redis_filter *filter;	/* NULL: not registered */
static bool are_commands_wanted;
static bool are_prefixes_used;		/* a client has put a trace in front of a command */

static bool load_api(struct redis_context *context)
{
	/* The first member of a context is the function that finds the others. */
	int (*get)(const char *name, void *ret_function) = *(void **)context;

#define FIND(type, name, parameters) \
	if (get("RedisModule_" #name, &api.name) != REDIS_OK) \
		return false;
	REDIS_FUNCTIONS(FIND)
#undef FIND
#define FIND(type, name, parameters) \
	if (get("RedisModule_" #name, &api.name) != REDIS_OK) \
		api.name = NULL;
	REDIS_OPTIONAL_FUNCTIONS(FIND)
#undef FIND
	return true;
}

/* The filter removes `ringpipe.trace TRACEPARENT` in front of another command. */
static void on_command(struct redis_filtered *command)
{
	char traceparent[64];
	const char *name, *text = NULL;
	size_t name_bytes, bytes = 0;

	name = api.StringPtrLen(api.CommandFilterArgGet(command, 0), &name_bytes);
	if (name_bytes == COMMAND_BYTES && strncasecmp(name, COMMAND, name_bytes) == 0 &&
	    api.CommandFilterArgsCount(command) >= 3) {
		text = api.StringPtrLen(api.CommandFilterArgGet(command, 1), &bytes);
		/* A longer text is not valid, nor is its part. */
		if (bytes > sizeof(traceparent))
			bytes = sizeof(traceparent);
		memcpy(traceparent, text, bytes);
		api.CommandFilterArgDelete(command, 1);
		api.CommandFilterArgDelete(command, 0);
		name = api.StringPtrLen(api.CommandFilterArgGet(command, 0), &name_bytes);
	}
	if (are_commands_wanted)
		tracing.begin_command(command, name, name_bytes, text ? traceparent : NULL, bytes);
}

/* The server calls each filter for each command, so it has this one only while it is needed. */
static void update_filter(void)
{
	bool is_needed = are_commands_wanted || are_prefixes_used;

	if (is_needed && !filter) {
		filter = api.RegisterCommandFilter(own_context, on_command, REDIS_FILTER_NO_SELF);
	} else if (!is_needed && filter) {
		api.UnregisterCommandFilter(own_context, filter);
		filter = NULL;
	}
}

static void watch_commands(bool are_wanted)
{
	are_commands_wanted = are_wanted;
	update_filter();
}

/*
 * ringpipe.trace TRACEPARENT COMMAND..., which no filter has seen, because no session wanted
 * commands and no client had used a prefix before. From now on the filter removes prefixes. This
 * one command runs as if a script called it, with the rights of the client.
 */
static int call_command(struct redis_context *context, struct redis_string **argv, int argc)
{
	const char *name = api.StringPtrLen(argv[2], NULL);
	struct redis_reply *reply;

	are_prefixes_used = true;
	update_filter();
	/* The call would select the database of a client that ends with the call. */
	if (strcasecmp(name, "select") == 0)
		return api.ReplyWithError(context, "ERR send the command again: the first command "
					  "with a trace must not be SELECT");
	reply = api.Call(context, name, "v!CSME0", argv + 3, (size_t)argc - 3);
	if (!reply)
		return api.ReplyWithError(context, "ERR send the command again");
	api.ReplyWithCallReply(context, reply);
	api.FreeCallReply(reply);
	return REDIS_OK;
}

/* ringpipe.trace TRACEPARENT, usually without a command after it. */
static int set_trace(struct redis_context *context, struct redis_string **argv, int argc)
{
	const char *text;
	size_t bytes;

	if (argc > 2)
		return call_command(context, argv, argc);
	if (argc != 2)
		return api.WrongArity(context);
	if (!tracing.set_trace)
		return api.ReplyWithSimpleString(context, "OK");
	if (!api.CommandFilterGetClientId)
		return api.ReplyWithError(context, "ERR this server gives filters no ids of "
					  "clients; use ringpipe.trace TRACEPARENT COMMAND");
	text = api.StringPtrLen(argv[1], &bytes);
	if (!tracing.set_trace(api.GetClientId(context), text, bytes))
		return api.ReplyWithError(context, "ERR not a traceparent");
	return api.ReplyWithSimpleString(context, "OK");
}

static void add_info(struct redis_info *info, int for_crash_report)
{
	(void)for_crash_report;
	if (api.InfoAddSection(info, "") != REDIS_OK)
		return;
	api.InfoAddFieldULongLong(info, "tracing", tracing.begin_command != NULL);
	api.InfoAddFieldCString(info, "reason", reason);
	api.InfoAddFieldULongLong(info, "client_ids", api.CommandFilterGetClientId != NULL);
	api.InfoAddFieldULongLong(info, "filter", filter != NULL);
	api.InfoAddFieldCString(info, "key_names", shows_keys ? "plain" : "hashed");
	if (tracing.add_info)
		tracing.add_info(info);
}

static int load_tracing(struct redis_context *context)
{
	char path[4096];
	__typeof__(ringpipe_tracing_start) *start;
	Dl_info object;
	const char *slash;
	void *handle;

	if (!dladdr(load_tracing, &object) || !object.dli_fname)
		return REDIS_ERROR;
	slash = strrchr(object.dli_fname, '/');
	snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash + 1 - object.dli_fname) : 0,
		 object.dli_fname, TRACING_OBJECT);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	start = handle ? (__typeof__(start))dlsym(handle, TRACING_START) : NULL;
	if (start)
		return start(context, &api, shows_keys, watch_commands, &tracing);
	snprintf(reason, sizeof(reason), "%s", dlerror());
	api.Log(context, "warning", "ringpipe writes no events: %s", reason);
	return REDIS_OK;
}

/* Arguments of loadmodule: [key-names hashed|plain]. */
static bool parse_arguments(struct redis_context *context, struct redis_string **argv, int argc)
{
	const char *name = argc > 0 ? api.StringPtrLen(argv[0], NULL) : "";
	const char *value = argc > 1 ? api.StringPtrLen(argv[1], NULL) : "";

	shows_keys = strcasecmp(value, "plain") == 0;
	if (argc == 0 || (argc == 2 && strcasecmp(name, "key-names") == 0 &&
			  (shows_keys || strcasecmp(value, "hashed") == 0)))
		return true;
	api.Log(context, "warning", "ringpipe: the arguments are 'key-names hashed' or 'key-names "
		"plain', not '%s %s'", name, value);
	return false;
}

__attribute__((visibility("default")))
int RedisModule_OnUnload(struct redis_context *context)
{
	(void)context;
	if (tracing.stop)
		tracing.stop();
	return REDIS_OK;
}

__attribute__((visibility("default")))
int RedisModule_OnLoad(struct redis_context *context, struct redis_string **argv, int argc)
{
	if (!load_api(context) || api.IsModuleNameBusy("ringpipe"))
		return REDIS_ERROR;
	api.SetModuleAttribs(context, "ringpipe", VERSION, REDIS_API_VERSION);
	own_context = api.GetDetachedThreadSafeContext(context);
	if (!parse_arguments(context, argv, argc) ||
	    api.CreateCommand(context, COMMAND, set_trace, "fast allow-loading allow-stale", 0, 0,
			      0) != REDIS_OK ||
	    api.RegisterInfoFunc(context, add_info) != REDIS_OK)
		return REDIS_ERROR;
	/* The last step, because a session may cause calls of this object from then on. */
	return load_tracing(context);
}
