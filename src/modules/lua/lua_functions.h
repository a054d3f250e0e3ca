/* SPDX-License-Identifier: MIT */
/* The functions of Lua that stacks contain, as numbers that the library takes for addresses. */
#ifndef RP_LUA_FUNCTIONS_H
#define RP_LUA_FUNCTIONS_H

#include <stdint.h>

#include <ringpipe/host.h>

#include "modules/lua/lua_module.h"

/*
 * Reserve the range of addresses and the table.
 * Context: one thread.
 * Return: 0; -ENOMEM.
 */
int rp_lua_functions_open(void);

/* Return: the range of all frames. */
struct rp_host_range rp_lua_functions_range(void);

/*
 * Return: the frame of a function and its current line; 0: the table is full.
 * @ar: from lua_getinfo() with "Sl". Lua finds the name of a function in the code of its caller,
 *	which takes long, so the function asks for the name only if the table lacks it.
 * @ret_has_name: whether the function has a name now.
 * Context: any thread, any signal handler, after rp_lua_functions_open().
 */
uint64_t rp_lua_frame_of(lua_State *L, lua_Debug *ar, bool *ret_has_name);

/* Describe a frame. It is the `resolve` of struct rp_host. */
int rp_lua_frame_resolve(uint64_t frame, struct rp_host_method *ret_method, void *data);

#endif
