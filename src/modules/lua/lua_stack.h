/* SPDX-License-Identifier: MIT */
/* The stacks of Lua functions, for events and samples. */
#ifndef RP_LUA_STACK_H
#define RP_LUA_STACK_H

#include "modules/lua/lua_module.h"

/*
 * Begin to supply the frames of the calling thread's Lua state to the library.
 * Return: 0; -ENOTSUP: the layout of this Lua is unknown; -errno. If the process has another host,
 * the function does nothing and returns 0.
 */
int rp_lua_stack_open(lua_State *L);

/*
 * Write an event. The state is at rest during the call, so a stack of the event needs no check.
 * Return: as rp_event_write().
 */
int rp_lua_write_at_rest(lua_State *L, struct rp_event *event, const struct rp_part *parts,
			 unsigned int part_count);

/*
 * Begin to run a coroutine. No error may leave the caller until rp_lua_thread_leave().
 * @L: the Lua thread that resumes it.
 * Return: whether it was recorded. If not, its functions are on no stack.
 */
bool rp_lua_thread_enter(lua_State *L, lua_State *coroutine);

/* L runs again, after a rp_lua_thread_enter() that returned true. */
void rp_lua_thread_leave(lua_State *L);

#endif
