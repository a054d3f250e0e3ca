/* SPDX-License-Identifier: MIT */
/*
 * The module has two shared objects. The server loads ringpipe.so, which needs no library, and
 * ringpipe.so loads ringpipe_tracing.so, which needs libringpipe. The server therefore also starts
 * where libringpipe is missing or too old.
 */
#ifndef REDIS_RINGPIPE_MODULE_H
#define REDIS_RINGPIPE_MODULE_H

#include <stdbool.h>

#include "api.h"

#define TRACING_OBJECT "ringpipe_tracing.so"
#define TRACING_START "ringpipe_tracing_start"

/* The functions of ringpipe_tracing.so that ringpipe.so calls. */
struct tracing {
	/* A command is about to run. `traceparent` is its prefix, or NULL. */
	void (*begin_command)(struct redis_filtered *command, const char *name, size_t name_bytes,
			      const char *traceparent, size_t bytes);
	/*
	 * Set the trace of all further commands of a client, or remove it if `bytes` is 0. Return
	 * false if the text is not a traceparent.
	 */
	bool (*set_trace)(uint64_t client, const char *traceparent, size_t bytes);
	void (*add_info)(struct redis_info *info);
	/* The module is about to be unloaded: call none of its functions any more. */
	void (*stop)(void);
};

/*
 * Call begin_command() for all further commands, or for none.
 * Context: the server's thread, and not a filter.
 */
typedef void (*tracing_watch_commands)(bool are_wanted);

/* Subscribe to the events of the server, as far as sessions want them. */
__attribute__((visibility("default")))
int ringpipe_tracing_start(struct redis_context *context, const struct redis_api *api,
			   bool shows_keys, tracing_watch_commands watch_commands,
			   struct tracing *ret_tracing);

#endif
