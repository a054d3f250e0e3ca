/* SPDX-License-Identifier: MIT */
#include "modules/lua/lua_interpreter.h"

#include <errno.h>
#include <execinfo.h>

#define FRAMES_MAX 32

/* The native functions of a stack, innermost first. */
struct lua_native_stack {
	struct rp_host_range functions[FRAMES_MAX];
	int count;
};

static int record_stack(lua_State *L)
{
	struct lua_native_stack *stack = lua_touserdata(L, lua_upvalueindex(1));
	void *frames[FRAMES_MAX];
	int count = backtrace(frames, FRAMES_MAX);

	stack->count = 0;
	/* The first frame is this function, whose callers have return addresses. */
	for (int i = 1; i < count; i++) {
		const char *instruction = (const char *)frames[i] - 1;
		struct rp_host_range *function = &stack->functions[stack->count];

		if (rp_host_find_function(instruction, function) != 0)
			continue;
		/* Frames from here on are in both stacks, and Lua may have called require(). */
		if (function->start <= (uintptr_t)rp_lua_interpreter_find &&
		    function->end > (uintptr_t)rp_lua_interpreter_find)
			break;
		stack->count++;
	}
	return 0;
}

static bool contains(const struct lua_native_stack *stack, const struct rp_host_range *function)
{
	for (int i = 0; i < stack->count; i++) {
		if (stack->functions[i].start == function->start)
			return true;
	}
	return false;
}

__attribute__((noinline)) int rp_lua_interpreter_find(lua_State *L,
						      struct rp_host_range *ret_range)
{
	struct lua_native_stack from_c, from_lua;

	lua_pushlightuserdata(L, &from_c);
	lua_pushcclosure(L, record_stack, 1);
	lua_call(L, 0, 0);
	if (luaL_loadstring(L, "local call = ...; call()") != LUA_OK)
		return luaL_error(L, "%s", lua_tostring(L, -1));
	lua_pushlightuserdata(L, &from_lua);
	lua_pushcclosure(L, record_stack, 1);
	lua_call(L, 1, 0);
	for (int i = 0; i < from_lua.count; i++) {
		if (!contains(&from_c, &from_lua.functions[i])) {
			*ret_range = from_lua.functions[i];
			return 0;
		}
	}
	return -ENOENT;
}
