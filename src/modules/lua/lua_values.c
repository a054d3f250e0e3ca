/* SPDX-License-Identifier: MIT */
/* Values that pass between Lua and C. */
#include "modules/lua/lua_module.h"

#include <stdio.h>
#include <string.h>

#include <ringpipe/types.h>

/* A message repeats this much of a name. */
#define WHAT_BYTES_MAX 100u

static const char *const level_names[] = {
	"always", "critical", "error", "warning", "informational", "verbose",
};

void rp_lua_type(lua_State *L, const char *name, const luaL_Reg *methods)
{
	luaL_newmetatable(L, name);
	luaL_setfuncs(L, methods, 0);
	lua_pushvalue(L, -1);
	lua_setfield(L, -2, "__index");
	lua_pushliteral(L, "ringpipe");
	lua_setfield(L, -2, "__metatable");
	lua_pop(L, 1);
}

void rp_lua_create_weak_table(lua_State *L, const void *key)
{
	lua_newtable(L);
	lua_newtable(L);
	lua_pushliteral(L, "k");
	lua_setfield(L, -2, "__mode");
	lua_setmetatable(L, -2);
	lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

int rp_lua_raise(lua_State *L, int error, const char *what)
{
	char text[WHAT_BYTES_MAX + 1];

	snprintf(text, sizeof(text), "%s", what);
	return luaL_error(L, "%s%s: %s", *text ? text : "''",
			  strlen(what) > WHAT_BYTES_MAX ? "..." : "", strerror(-error));
}

const char *rp_lua_to_text(lua_State *L, int index)
{
	size_t length;
	const char *text = lua_type(L, index) == LUA_TSTRING ?
			   lua_tolstring(L, index, &length) : NULL;

	return text && strlen(text) == length ? text : NULL;
}

int rp_lua_push_result(lua_State *L, int error)
{
	if (error == 0) {
		lua_pushboolean(L, 1);
		return 1;
	}
	lua_pushnil(L);
	lua_pushstring(L, strerror(-error));
	return 2;
}

int rp_lua_get_raw(lua_State *L, int index, const char *key)
{
	lua_pushstring(L, key);
	return lua_rawget(L, index);
}

const char *rp_lua_get_string(lua_State *L, int index, const char *key, const char *fallback)
{
	const char *text = fallback;
	size_t length;

	/* Without a conversion: a converted number would belong to nothing. */
	if (rp_lua_get_raw(L, index, key) == LUA_TSTRING) {
		text = lua_tolstring(L, -1, &length);
		if (strlen(text) != length)
			luaL_error(L, "'%s' contains a NUL", key);
	} else if (!lua_isnil(L, -1)) {
		luaL_error(L, "'%s' is a string, not a %s", key, luaL_typename(L, -1));
	}
	lua_pop(L, 1);
	return text;
}

lua_Integer rp_lua_get_integer(lua_State *L, int index, const char *key, lua_Integer fallback,
			       lua_Integer low, lua_Integer high)
{
	lua_Integer value = fallback;
	int is_integer = 1;

	if (rp_lua_get_raw(L, index, key) != LUA_TNIL)
		value = lua_tointegerx(L, -1, &is_integer);
	if (!is_integer || value < low || value > high)
		luaL_error(L, "'%s' is an integer from %I to %I", key, (LUAI_UACINT)low,
			   (LUAI_UACINT)high);
	lua_pop(L, 1);
	return value;
}

uint8_t rp_lua_get_level(lua_State *L, int index, uint8_t fallback)
{
	const char *name;

	if (rp_lua_get_raw(L, index, "level") != LUA_TSTRING) {
		lua_pop(L, 1);
		return (uint8_t)rp_lua_get_integer(L, index, "level", fallback, 0,
						   RP_LEVEL_VERBOSE);
	}
	name = lua_tostring(L, -1);
	for (uint8_t level = 0; level <= RP_LEVEL_VERBOSE; level++) {
		if (strcmp(name, level_names[level]) == 0) {
			lua_pop(L, 1);
			return level;
		}
	}
	return (uint8_t)luaL_error(L, "'level' has no value '%s'", name);
}
