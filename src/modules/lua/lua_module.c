/* SPDX-License-Identifier: MIT */
/* The table that require "ringpipe" returns. */
#include "modules/lua/lua_heap.h"
#include "modules/lua/lua_module.h"
#include "modules/lua/lua_stack.h"

#include <errno.h>

#include <ringpipe/types.h>

#define LUA_EXPORT __attribute__((visibility("default")))

LUA_EXPORT int luaopen_ringpipe(lua_State *L);

LUA_EXPORT int luaopen_ringpipe(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "source", rp_lua_source_create },
		{ "listen", rp_lua_listen },
		{ "poll", rp_lua_poll },
		{ NULL, NULL },
	};

	int ret;

	luaL_checkversion(L);
	if (rp_lua_heap_open(L) != 0)
		return rp_lua_raise(L, -ENOMEM, "ringpipe");
	ret = rp_lua_stack_open(L);
	if (ret == -ENOTSUP)
		return luaL_error(L, "ringpipe: the calls of this build of Lua have an unknown "
				  "layout in memory");
	if (ret != 0)
		return rp_lua_raise(L, ret, "ringpipe");
	rp_lua_open_coroutines(L);
	rp_lua_open_sources(L);
	rp_lua_open_events(L);
	rp_lua_open_spans(L);
	rp_lua_open_counters(L);
	rp_lua_open_listeners(L);
	rp_lua_open_collector(L);
	luaL_newlib(L, functions);
	lua_pushliteral(L, RP_VERSION_STRING);
	lua_setfield(L, -2, "version");
	return 1;
}
