/* SPDX-License-Identifier: MIT */
/*
 * Spans: two events, NameStart and NameStop, with the activity of the span. A started span is a
 * value that can be closed: `local work <close> = span(…)` ends it when the block is left, also by
 * an error.
 */
#include "modules/lua/lua_module.h"
#include "modules/lua/lua_stack.h"

#include <stdio.h>

#include <ringpipe/span.h>

/* A kind of span. The two events are its user values, so that they live as long. */
struct lua_span {
	const struct lua_event *start, *stop;
};

/* A span that has begun. The kind of span is its user value. */
struct lua_started_span {
	const struct lua_span *kind;
	struct rp_span span;		/* begun_ns is 0 if no session wanted it, or it has ended */
	struct rp_activity outer;
	bool is_current;		/* its activity is the thread's until it ends */
};

static void push_part(lua_State *L, struct lua_source *source, const char *name,
		      const char *suffix, uint8_t opcode)
{
	char full[RP_NAME_MAX + 1];

	if (snprintf(full, sizeof(full), "%s%s", name, suffix) >= (int)sizeof(full))
		luaL_error(L, "the name of the span is too long");
	(void)rp_lua_event_create(L, source, 2, full, opcode, opcode == RP_OPCODE_START);
}

/* source:span { name = …, … } */
static int source_span(lua_State *L)
{
	struct lua_source *source = rp_lua_check_source(L, 1);
	struct lua_span *span;
	const char *name;

	luaL_checktype(L, 2, LUA_TTABLE);
	name = rp_lua_get_string(L, 2, "name", NULL);
	luaL_argcheck(L, name, 2, "a span needs a 'name'");
	span = lua_newuserdatauv(L, sizeof(*span), 2);
	push_part(L, source, name, "Start", RP_OPCODE_START);
	span->start = lua_touserdata(L, -1);
	lua_setiuservalue(L, -2, 1);
	push_part(L, source, name, "Stop", RP_OPCODE_STOP);
	span->stop = lua_touserdata(L, -1);
	lua_setiuservalue(L, -2, 2);
	luaL_setmetatable(L, LUA_SPAN_TYPE);
	return 1;
}

static bool is_wanted(const struct lua_span *span)
{
	/* An event is NULL if Lua has finalized it, at the end of the program. */
	return span->start->event && span->stop->event &&
	       (rp_event_enabled(span->start->event) || rp_event_enabled(span->stop->event));
}

/* The arguments are the span's kind, and the values of its fields. */
static int begin(lua_State *L, bool is_current)
{
	const struct lua_span *kind = luaL_checkudata(L, 1, LUA_SPAN_TYPE);
	struct lua_started_span *started = lua_newuserdatauv(L, sizeof(*started), 1);
	struct rp_activity outer;

	started->kind = kind;
	started->span.begun_ns = 0;
	started->is_current = is_current;
	luaL_setmetatable(L, LUA_STARTED_SPAN_TYPE);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, 1);
	if (!is_wanted(kind))
		return 1;
	/* The kind's place holds the result, as the event's values must be the last ones. */
	lua_replace(L, 1);
	rp_lua_event_reserve(L, kind->start);
	rp_span_begin(&started->span, &outer);
	started->outer = outer;
	rp_activity_end(&outer);
	/* The event gets the activity; its arguments may raise an error for lack of memory. */
	rp_activity_set(&started->span.activity);
	if (rp_event_enabled(kind->start->event))
		(void)rp_lua_event_write(L, kind->start, 2);
	if (!is_current)
		rp_activity_set(&started->outer);
	lua_settop(L, 1);
	return 1;
}

static int span_enter(lua_State *L)
{
	return begin(L, true);
}

static int span_begin(lua_State *L)
{
	return begin(L, false);
}

static int span_enabled(lua_State *L)
{
	lua_pushboolean(L, is_wanted(luaL_checkudata(L, 1, LUA_SPAN_TYPE)));
	return 1;
}

static int started_finish(lua_State *L)
{
	struct lua_started_span *started = luaL_checkudata(L, 1, LUA_STARTED_SPAN_TYPE);
	struct rp_activity outer;
	uint64_t duration_ns;
	const struct rp_part part = { &duration_ns, sizeof(duration_ns) };

	if (started->span.begun_ns == 0)
		return 0;
	duration_ns = rp_span_end(&started->span, &outer);
	started->span.begun_ns = 0;
	if (started->kind->stop->event && rp_event_enabled(started->kind->stop->event))
		(void)rp_lua_write_at_rest(L, started->kind->stop->event, &part, 1);
	rp_activity_set(started->is_current ? &started->outer : &outer);
	return 0;
}

/* A span that the program lost: its end is unknown, so no event is written. */
static int started_collect(lua_State *L)
{
	struct lua_started_span *started = luaL_checkudata(L, 1, LUA_STARTED_SPAN_TYPE);

	started->span.begun_ns = 0;
	return 0;
}

void rp_lua_open_spans(lua_State *L)
{
	static const luaL_Reg kind_methods[] = {
		{ "enter", span_enter },
		{ "begin", span_begin },
		{ "enabled", span_enabled },
		{ "__call", span_enter },
		{ NULL, NULL },
	};
	static const luaL_Reg methods[] = {
		{ "finish", started_finish },
		{ "__close", started_finish },
		{ "__gc", started_collect },
		{ NULL, NULL },
	};

	rp_lua_type(L, LUA_SPAN_TYPE, kind_methods);
	rp_lua_type(L, LUA_STARTED_SPAN_TYPE, methods);
	rp_lua_source_add_method(L, "span", source_span);
}
