/* SPDX-License-Identifier: MIT */
/* The module refuses a Lua whose calls have another layout, and names the reason. */
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

/*
 * The module compares the address of a function with that in its call. The symbols of a program
 * come first, so the module finds this other address.
 */
LUA_API const void *lua_topointer(lua_State *L, int index)
{
	(void)index;
	return L;
}

int main(void)
{
	lua_State *L = luaL_newstate();
	const char *message;
	int is_refused;

	if (!L)
		return 1;
	luaL_openlibs(L);
	is_refused = luaL_dostring(L, "require 'ringpipe'") != LUA_OK;
	message = is_refused ? lua_tostring(L, -1) : "the module was loaded";
	is_refused = is_refused && strstr(message, "unknown layout") != NULL;
	printf("1..1\n%s 1 - the module refuses an unknown layout\n# %s\n",
	       is_refused ? "ok" : "not ok", message);
	lua_close(L);
	return !is_refused;
}
