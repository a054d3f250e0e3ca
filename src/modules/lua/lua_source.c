/* SPDX-License-Identifier: MIT */
/* Sources: providers that a Lua program creates. */
#include "modules/lua/lua_module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void rp_lua_source_release(struct lua_source *source)
{
	if (!source || --source->references)
		return;
	(void)rp_provider_destroy(source->provider);
	free(source);
}

struct lua_source *rp_lua_check_source(lua_State *L, int index)
{
	struct lua_source **handle = luaL_checkudata(L, index, LUA_SOURCE_TYPE);

	luaL_argcheck(L, *handle, index, "the source is closed");
	return *handle;
}

/* ringpipe.source(name) */
int rp_lua_source_create(lua_State *L)
{
	size_t length;
	const char *name = luaL_checklstring(L, 1, &length);
	struct lua_source **handle;
	int ret;

	luaL_argcheck(L, strlen(name) == length, 1, "a name contains no NUL");
	handle = lua_newuserdatauv(L, sizeof(struct lua_source *), 0);
	*handle = NULL;
	luaL_setmetatable(L, LUA_SOURCE_TYPE);
	*handle = calloc(1, sizeof(**handle));
	if (!*handle)
		return rp_lua_raise(L, -ENOMEM, name);
	(*handle)->references = 1;
	ret = rp_provider_create(name, NULL, NULL, &(*handle)->provider);
	if (ret == 0)
		return 1;
	free(*handle);
	*handle = NULL;
	return rp_lua_raise(L, ret, name);
}

static int source_collect(lua_State *L)
{
	struct lua_source **handle = luaL_checkudata(L, 1, LUA_SOURCE_TYPE);

	rp_lua_source_release(*handle);
	*handle = NULL;
	return 0;
}

static int source_name(lua_State *L)
{
	lua_pushstring(L, rp_provider_name(rp_lua_check_source(L, 1)->provider));
	return 1;
}

static int source_to_string(lua_State *L)
{
	struct lua_source **handle = luaL_checkudata(L, 1, LUA_SOURCE_TYPE);

	lua_pushfstring(L, "ringpipe source (%s)",
			*handle ? rp_provider_name((*handle)->provider) : "closed");
	return 1;
}

void rp_lua_source_add_method(lua_State *L, const char *name, lua_CFunction function)
{
	luaL_getmetatable(L, LUA_SOURCE_TYPE);
	lua_pushcfunction(L, function);
	lua_setfield(L, -2, name);
	lua_pop(L, 1);
}

void rp_lua_open_sources(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{ "name", source_name },
		{ "close", source_collect },
		{ "__gc", source_collect },
		{ "__close", source_collect },
		{ "__tostring", source_to_string },
		{ NULL, NULL },
	};

	rp_lua_type(L, LUA_SOURCE_TYPE, methods);
}
