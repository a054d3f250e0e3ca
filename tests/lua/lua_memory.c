/* SPDX-License-Identifier: MIT */
/*
 * Runs a script once for each of its allocations, and lets that allocation fail.
 *
 * usage: lua_memory SCRIPT
 */
#include <stdio.h>
#include <stdlib.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

/* Allocations until one fails, and whether it has. */
struct fault {
	unsigned long left;
	int has_failed;
};

static void *allocate(void *data, void *memory, size_t old_bytes, size_t new_bytes)
{
	struct fault *fault = data;

	(void)old_bytes;
	if (new_bytes == 0) {
		free(memory);
		return NULL;
	}
	if (fault->left && --fault->left == 0) {
		fault->has_failed = 1;
		return NULL;
	}
	return realloc(memory, new_bytes);
}

static int print_nothing(lua_State *L)
{
	(void)L;
	return 0;
}

static int run(lua_State *L)
{
	luaL_openlibs(L);
	lua_pushcfunction(L, print_nothing);
	lua_setglobal(L, "print");
	if (luaL_loadfile(L, lua_touserdata(L, 1)) != LUA_OK)
		return lua_error(L);
	lua_call(L, 0, 0);
	return 0;
}

int main(int argc, char **argv)
{
	struct fault fault = { 0, 1 };
	unsigned long number;

	if (argc != 2)
		return 2;
	for (number = 1; fault.has_failed; number++) {
		lua_State *L;
		int status;

		fault = (struct fault){ number, 0 };
		L = lua_newstate(allocate, &fault);
		if (!L)
			continue;
		lua_pushcfunction(L, run);
		lua_pushlightuserdata(L, argv[1]);
		status = lua_pcall(L, 1, 0, 0);
		if (status != LUA_OK && !fault.has_failed) {
			printf("not ok - allocation %lu: %s\n", number, lua_tostring(L, -1));
			return 1;
		}
		lua_close(L);
	}
	printf("# figure: %lu allocations of the script can fail\n", number - 2);
	return number > 100 ? 0 : 1;
}
