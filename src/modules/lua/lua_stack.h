/* SPDX-License-Identifier: MIT */
/* The stacks of Lua functions, for events and samples. */
#ifndef RP_LUA_STACK_H
#define RP_LUA_STACK_H

#include "modules/lua/lua_module.h"

/*
 * Begin to supply the frames of the calling thread's Lua state to the library. The function
 * replaces coroutine.resume() and coroutine.wrap() by functions that record which coroutine runs.
 * Return: 0; -errno. If the process has another host, the function does nothing and returns 0.
 */
int rp_lua_stack_open(lua_State *L);

#endif
