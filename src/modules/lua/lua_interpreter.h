/* SPDX-License-Identifier: MIT */
/* The native function that executes Lua's instructions. */
#ifndef RP_LUA_INTERPRETER_H
#define RP_LUA_INTERPRETER_H

#include <ringpipe/host.h>

#include "modules/lua/lua_module.h"

/*
 * Find the interpreter of a state. Distributions strip its symbol, so the function calls a C
 * function from C and from Lua, and compares the two native stacks.
 * Return: 0; -ENOENT.
 */
int rp_lua_interpreter_find(lua_State *L, struct rp_host_range *ret_range);

#endif
