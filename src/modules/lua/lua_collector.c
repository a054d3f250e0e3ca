/* SPDX-License-Identifier: MIT */
/*
 * The cycles of Lua's collector as events. Lua runs the finalizer of an unreachable object in each
 * cycle, so a *sentinel* that nothing refers to reports the cycle and creates the next sentinel. In
 * generational mode, that is each collection of young objects.
 *
 * lua_close() also runs the finalizers, without a cycle. It runs them in the reverse order of
 * creation, so it runs that of a *canary* first, which is reachable and was created after the
 * sentinel.
 */
#include "modules/lua/lua_heap.h"
#include "modules/lua/lua_module.h"

#include <time.h>

#define SENTINEL_TYPE "ringpipe.sentinel"
#define CANARY_TYPE "ringpipe.canary"

RP_PROVIDER(lua, "Lua-Runtime");
RP_EVENT(lua, GCCycle, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(Count), RP_U64(HeapBytes),
	 RP_U64(SincePreviousNs));

/* The key of the current canary in the registry. */
static const char canary_key;

/* The memory of a sentinel and of a canary. */
struct lua_cycle {
	uint64_t count;			/* of cycles before */
	uint64_t begun_ns;		/* CLOCK_MONOTONIC */
};

uint64_t rp_lua_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void create(lua_State *L, uint64_t count, uint64_t now)
{
	struct lua_cycle *sentinel = lua_newuserdatauv(L, sizeof(*sentinel), 0);

	*sentinel = (struct lua_cycle){ count, now };
	luaL_setmetatable(L, SENTINEL_TYPE);
	(void)lua_newuserdatauv(L, 0, 0);
	luaL_setmetatable(L, CANARY_TYPE);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &canary_key);
	lua_pop(L, 1);
}

static int canary_collect(lua_State *L)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &canary_key);
	if (!lua_rawequal(L, 1, -1))
		return 0;
	/* It is still reachable, so the state is being closed. */
	lua_pushnil(L);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &canary_key);
	return 0;
}

static int sentinel_collect(lua_State *L)
{
	const struct lua_cycle *cycle = luaL_checkudata(L, 1, SENTINEL_TYPE);
	uint64_t now = rp_lua_now_ns();

	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &canary_key) == LUA_TNIL)
		return 0;
	if (lua_GCCycle_enabled()) {
		const struct lua_heap *heap = rp_lua_heap_of(L);

		(void)lua_GCCycle(cycle->count + 1, heap ? heap->bytes : 0,
				  now - cycle->begun_ns);
	}
	create(L, cycle->count + 1, now);
	return 0;
}

void rp_lua_open_collector(lua_State *L)
{
	static const luaL_Reg sentinel_methods[] = {
		{ "__gc", sentinel_collect },
		{ NULL, NULL },
	};
	static const luaL_Reg canary_methods[] = {
		{ "__gc", canary_collect },
		{ NULL, NULL },
	};

	rp_lua_type(L, SENTINEL_TYPE, sentinel_methods);
	rp_lua_type(L, CANARY_TYPE, canary_methods);
	create(L, 0, rp_lua_now_ns());
}
