/* SPDX-License-Identifier: MIT */
/*
 * Functions in the place of coroutine.resume(), coroutine.wrap() and coroutine.close(). The first
 * two also record which coroutine runs, because lua.h cannot find the running one from outside, and
 * stacks need it. They call lua_resume() themselves: a call of the original functions would count
 * towards Lua's limit of nested C calls.
 *
 * The ids of an activity belong to a thread of the system. A coroutine keeps its own ones while it
 * waits, and the coroutine that resumes it gets back its former ids.
 */
#include "modules/lua/lua_module.h"
#include "modules/lua/lua_stack.h"

#include <string.h>

#include <ringpipe/activity.h>

/* The key of the registry's table: coroutine -> its struct rp_activity, weak by coroutine. */
static const char activities_key;

/*
 * Push the ids that a coroutine keeps, or nil, after the table and the coroutine.
 * Return: the ids, or NULL.
 */
static struct rp_activity *push_activity(lua_State *L, lua_State *coroutine)
{
	luaL_checkstack(L, LUA_MINSTACK, NULL);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &activities_key);
	lua_pushthread(coroutine);
	lua_xmove(coroutine, L, 1);
	lua_pushvalue(L, -1);
	lua_rawget(L, -3);
	return lua_touserdata(L, -1);
}

/* Make the ids of a waiting coroutine current. A new one continues with those of its resumer. */
static void restore_activity(lua_State *L, lua_State *coroutine)
{
	const struct rp_activity *activity;

	if (lua_status(coroutine) != LUA_YIELD || !lua_checkstack(coroutine, 1))
		return;
	activity = push_activity(L, coroutine);
	if (activity)
		rp_activity_set(activity);
	lua_pop(L, 3);
}

/* Keep the ids of a coroutine that waits, if they are not those of its resumer. */
static void keep_activity(lua_State *L, lua_State *coroutine, const struct rp_activity *outer)
{
	struct rp_activity ids, *activity;

	rp_activity_get(&ids);
	rp_activity_set(outer);
	if (lua_status(coroutine) != LUA_YIELD || !lua_checkstack(coroutine, 1))
		return;
	activity = push_activity(L, coroutine);
	if (activity) {
		*activity = ids;
	} else if (memcmp(&ids, outer, sizeof(ids)) != 0) {
		lua_pop(L, 1);
		activity = lua_newuserdatauv(L, sizeof(*activity), 0);
		*activity = ids;
		lua_rawset(L, -3);
		lua_pop(L, 1);
		return;
	}
	lua_pop(L, 3);
}

/*
 * Resume a coroutine with the topmost `count` values of L, and move its results to L.
 * Return: their number; -1: an error, whose value was pushed instead.
 */
static int resume_with(lua_State *L, lua_State *coroutine, int count)
{
	struct rp_activity outer;
	bool is_recorded;
	int status, results;

	if (!lua_checkstack(coroutine, count)) {
		lua_pushliteral(L, "too many arguments to resume");
		return -1;
	}
	rp_activity_get(&outer);
	restore_activity(L, coroutine);
	lua_xmove(L, coroutine, count);
	is_recorded = rp_lua_thread_enter(L, coroutine);
	status = lua_resume(coroutine, L, count, &results);
	if (is_recorded)
		rp_lua_thread_leave(L);
	keep_activity(L, coroutine, &outer);
	if (status != LUA_OK && status != LUA_YIELD) {
		lua_xmove(coroutine, L, 1);
		return -1;
	}
	if (!lua_checkstack(L, results + 1)) {
		lua_pop(coroutine, results);
		lua_pushliteral(L, "too many results to resume");
		return -1;
	}
	lua_xmove(coroutine, L, results);
	return results;
}

/* coroutine.resume(coroutine, …) */
static int resume(lua_State *L)
{
	lua_State *coroutine = lua_tothread(L, 1);
	int results;

	luaL_argexpected(L, coroutine, 1, "thread");
	results = resume_with(L, coroutine, lua_gettop(L) - 1);
	lua_pushboolean(L, results >= 0);
	if (results < 0)
		results = 1;
	lua_insert(L, -1 - results);
	return results + 1;
}

/* Close a coroutine that has failed. Its variables that are to be closed may raise new errors. */
static void close_failed(lua_State *L, lua_State *coroutine)
{
	int status = lua_status(coroutine);
	struct rp_activity outer;
	bool is_recorded;

	if (status == LUA_OK || status == LUA_YIELD)
		return;		/* it could not be resumed */
	/* The error's value decides the status of the variables. */
	lua_xmove(L, coroutine, 1);
	rp_activity_get(&outer);
	is_recorded = rp_lua_thread_enter(L, coroutine);
	(void)lua_resetthread(coroutine);
	if (is_recorded)
		rp_lua_thread_leave(L);
	rp_activity_set(&outer);
	lua_xmove(coroutine, L, 1);
}

/* The function that coroutine.wrap() returns. */
static int resume_wrapped(lua_State *L)
{
	lua_State *coroutine = lua_tothread(L, lua_upvalueindex(1));
	int results = resume_with(L, coroutine, lua_gettop(L));

	if (results >= 0)
		return results;
	close_failed(L, coroutine);
	/* As errors of functions, the message begins with the place of the call. */
	if (lua_type(L, -1) == LUA_TSTRING) {
		luaL_where(L, 1);
		lua_insert(L, -2);
		lua_concat(L, 2);
	}
	return lua_error(L);
}

/* coroutine.wrap(function). The upvalue is coroutine.create(). */
static int wrap(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TFUNCTION);
	lua_settop(L, 1);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, 1, 1);
	lua_pushcclosure(L, resume_wrapped, 1);
	return 1;
}

/*
 * coroutine.close(coroutine). A span that the coroutine closes would make its outer ids current in
 * the caller. The upvalue is Lua's function, whose call may raise an error: by a hook of the
 * program, or because the stack is full.
 */
static int close_coroutine(lua_State *L)
{
	lua_State *coroutine = lua_tothread(L, 1);
	struct rp_activity outer;
	lua_Debug ar;
	int status;

	luaL_argexpected(L, coroutine, 1, "thread");
	if (coroutine == L)
		return luaL_error(L, "cannot close a running coroutine");
	if (lua_status(coroutine) == LUA_OK && lua_getstack(coroutine, 0, &ar))
		return luaL_error(L, "cannot close a normal coroutine");
	lua_settop(L, 1);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	rp_activity_get(&outer);
	restore_activity(L, coroutine);
	status = lua_pcall(L, 1, LUA_MULTRET, 0);
	rp_activity_set(&outer);
	return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

void rp_lua_open_coroutines(lua_State *L)
{
	int top = lua_gettop(L);

	if (lua_getglobal(L, "coroutine") == LUA_TTABLE &&
	    lua_getfield(L, -1, "create") == LUA_TFUNCTION) {
		lua_pushcclosure(L, wrap, 1);
		lua_setfield(L, -2, "wrap");
		lua_pushcfunction(L, resume);
		lua_setfield(L, -2, "resume");
		/* Another require() of the module finds its own function. */
		if (lua_getfield(L, -1, "close") == LUA_TFUNCTION &&
		    lua_tocfunction(L, -1) != close_coroutine) {
			lua_pushcclosure(L, close_coroutine, 1);
			lua_setfield(L, -2, "close");
		}
	}
	lua_settop(L, top);
	rp_lua_create_weak_table(L, &activities_key);
}
