/* SPDX-License-Identifier: MIT */
/* The native function that executes Lua's instructions. */
#ifndef RP_LUA_INTERPRETER_H
#define RP_LUA_INTERPRETER_H

#include <ringpipe/host.h>

#include "modules/lua/lua_module.h"

/*
 * Find the interpreter of a state. Distributions strip its symbol, so the function compares two
 * native stacks of a C function: one that C calls, and one that Lua calls.
 * Return: 0; -ENOENT.
 */
int rp_lua_interpreter_find(lua_State *L, struct rp_host_range *ret_range);

#endif
