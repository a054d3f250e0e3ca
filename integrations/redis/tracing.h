/* SPDX-License-Identifier: MIT */
/* The parts of ringpipe_tracing.so. */
#ifndef REDIS_RINGPIPE_TRACING_H
#define REDIS_RINGPIPE_TRACING_H

#include "module.h"

#include <stdatomic.h>

#include <ringpipe/ringpipe.h>

/* The values that INFO shows. */
struct tracing_stats {
	uint64_t spans;
	uint64_t slow_commands;
	uint64_t traced_clients;
};

extern const struct redis_api *redis;
extern struct tracing_stats tracing_stats;

/* key.c: what events say of a key. The hash depends on a random number of this process. */
struct key {
	uint64_t hash;
	const char *name;		/* "" unless the module shows names */
	size_t bytes;
};

int key_init(bool shows_names);
struct key key_of(const char *name, size_t bytes);

/* client_trace.c: the traces that clients have set. */
bool client_trace_set(uint64_t client, const char *traceparent, size_t bytes);
const struct rp_activity *client_trace_find(uint64_t client);
void client_trace_remove(uint64_t client);
void client_trace_remove_all(void);

/* command.c */
#define NAME_BYTES 32		/* of the name of a command; the rest is cut off */

void command_begin(struct redis_filtered *command, const char *name, size_t name_bytes,
		   const char *traceparent, size_t bytes);
/* The event loop is about to wait: no command runs any more. */
void command_end_all(void);
/* A session wants events of commands. */
bool command_is_wanted(void);

/* command_table.c */
/* Ask the server for its commands. */
void command_table_read(struct redis_context *context);
/*
 * Return the number of keys among the arguments, 0 if the server rejects that number, and -1 if
 * the table does not have the command or its keys may be anywhere. If there are keys, `*ret_first`
 * is the index of the first one. Unless the result is -1, `*name` becomes the server's name.
 */
int command_table_find(const char **name, size_t bytes, int arguments, int *ret_first);

/* event_loop.c */
/* Have the event loop poll for tools, sessions and tracers. */
int event_loop_begin(void);
void event_loop_end(void);
extern atomic_bool event_loop_has_session;	/* a session wants the provider */
/* Call server_update() in the next round of the loop. */
void event_loop_update_soon(void);

/* server.c */
/*
 * Subscribe to those events of the server that are wanted now, and to no others.
 * Context: the server's thread, and not a callback of its events.
 */
void server_update(void);
/* The same, once a second and when a session starts or ends; also read the counters. */
void server_tick(void);

/* slow_log.c */
/* Return "" if the reply is no text. */
const char *reply_text(struct redis_reply *reply, size_t *ret_bytes);
long long reply_integer(struct redis_reply *array, size_t index);
/* Read the limit of the slow log again. */
void slow_log_configure(struct redis_context *context);
/* A command has ended; `duration_ns` is its time or more. */
void slow_log_note(uint64_t duration_ns);
/*
 * Write an event for each new entry, if a command may have added one. `skips`: only skip the
 * entries from before a session.
 */
void slow_log_read(struct redis_context *context, bool skips);

#endif
