/* SPDX-License-Identifier: MIT */
/*
 * The module `ringpipe` of Lua 5.4. It calls the public API of ringpipe only. All files of the
 * folder share this header.
 *
 * Rules:
 *  - The functions of tracing never raise an error in a program whose arguments to them are wrong
 *    at one call only: a program must not fail because a session has started. They return nil and
 *    a message. Declarations raise errors, because they run whether a session runs or not.
 *  - A Lua function runs only in the thread that runs its Lua state, between two instructions.
 *  - Any function of Lua's API that allocates may leave by longjmp(3). No memory or object of
 *    ringpipe may depend on code after it, so each is in a userdata with a finalizer first.
 */
#ifndef RP_LUA_MODULE_H
#define RP_LUA_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lauxlib.h>
#include <lua.h>

#include <ringpipe/event.h>
#include <ringpipe/field.h>
#include <ringpipe/provider.h>

/* Names of metatables in the registry. */
#define LUA_SOURCE_TYPE "ringpipe.source"
#define LUA_EVENT_TYPE "ringpipe.event"
#define LUA_SPAN_TYPE "ringpipe.span"
#define LUA_STARTED_SPAN_TYPE "ringpipe.started_span"
#define LUA_COUNTER_TYPE "ringpipe.counter"
#define LUA_LISTENER_TYPE "ringpipe.listener"

/*
 * A provider of the program. Its events and counters refer to it too, because Lua may finalize the
 * objects of one cycle in any order.
 */
struct lua_source {
	struct rp_provider *provider;
	unsigned int references;
};

/* An event of a source. The memory of a Lua userdata. */
struct lua_event {
	struct lua_source *source;	/* NULL: not created */
	struct rp_event *event;
	unsigned int field_count;
	struct rp_field fields[];	/* types only: the names belong to `event` */
};

/*
 * Register a type of userdata. Its methods are also its __index.
 * @methods: ends with a NULL name; names that begin with "__" are metamethods.
 */
void rp_lua_type(lua_State *L, const char *name, const luaL_Reg *methods);

/* Create a table whose keys are weak, under a key of the registry. */
void rp_lua_create_weak_table(lua_State *L, const void *key);

/* Raise an error for a failed call of ringpipe. @what: the subject of the message, which is cut. */
int rp_lua_raise(lua_State *L, int error, const char *what);

/* Return: the string at an index; NULL: the value is no string, or contains a NUL. */
const char *rp_lua_to_text(lua_State *L, int index);

/*
 * Return the result of a call of ringpipe to Lua: true, or nil and a message.
 * Return: the number of values that it pushed.
 */
int rp_lua_push_result(lua_State *L, int error);

/* Return: the source at an index; raises an error for another value, or a closed source. */
struct lua_source *rp_lua_check_source(lua_State *L, int index);

/* Drop a reference, and destroy the provider with the last one. */
void rp_lua_source_release(struct lua_source *source);

/*
 * Push a member of the table at `index`, without metamethods: they could return strings that belong
 * to no table. Return: its type.
 */
int rp_lua_get_raw(lua_State *L, int index, const char *key);

/* Return: a string of the table at `index`, or `fallback`. It is valid as long as the table. */
const char *rp_lua_get_string(lua_State *L, int index, const char *key, const char *fallback);

/* Return: an integer from `low` to `high` of the table at `index`, or `fallback`. */
lua_Integer rp_lua_get_integer(lua_State *L, int index, const char *key, lua_Integer fallback,
			       lua_Integer low, lua_Integer high);

/* Return: the level in the table at `index`: a name or a number of enum rp_level. */
uint8_t rp_lua_get_level(lua_State *L, int index, uint8_t fallback);

/*
 * Create an event, and push its userdata. The table at `index` has the attributes `id`, `version`,
 * `level`, `keywords`, `message`, and `fields`.
 * @name: of the event.
 * @opcode: enum rp_opcode.
 * @has_fields: whether the event has the fields of the table. If not, it has one field,
 * `duration_ns`.
 */
struct lua_event *rp_lua_event_create(lua_State *L, struct lua_source *source, int index,
				      const char *name, uint8_t opcode, bool has_fields);

/* Reserve the stack that rp_lua_event_write() needs. Raises an error if there is none. */
void rp_lua_event_reserve(lua_State *L, const struct lua_event *event);

/*
 * Write an event with values of the stack as its fields, after rp_lua_event_reserve().
 * @first: the index of the first field's value.
 * Return: 0; -errno of rp_event_write(); -EINVAL after it pushed a message: a value is not of its
 * field's type.
 */
int rp_lua_event_write(lua_State *L, const struct lua_event *event, int first);

/* Add a method to the type of sources. */
void rp_lua_source_add_method(lua_State *L, const char *name, lua_CFunction function);

/* The functions of the module's table. */
int rp_lua_source_create(lua_State *L);
int rp_lua_listen(lua_State *L);
int rp_lua_poll(lua_State *L);

/* Register the types of a file, and its methods of a source, whose type is the first. */
void rp_lua_open_sources(lua_State *L);
void rp_lua_open_events(lua_State *L);
void rp_lua_open_spans(lua_State *L);
void rp_lua_open_counters(lua_State *L);
void rp_lua_open_listeners(lua_State *L);
void rp_lua_open_collector(lua_State *L);

/* Return: the time of CLOCK_MONOTONIC, which events have. */
uint64_t rp_lua_now_ns(void);

/* Replace the functions of Lua that run coroutines. */
void rp_lua_open_coroutines(lua_State *L);

#endif
