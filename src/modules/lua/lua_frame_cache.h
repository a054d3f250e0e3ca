/* SPDX-License-Identifier: MIT */
/*
 * A cache of frames. Lua finds the file, line and name of a call in tables of its function, which
 * takes longer than the rest of an event. The cache finds the frame by the position in the code of
 * the call.
 */
#ifndef RP_LUA_FRAME_CACHE_H
#define RP_LUA_FRAME_CACHE_H

#include <stdint.h>
#include <stdlib.h>

#include "modules/lua/lua_layout.h"

#define LUA_CACHED_FUNCTIONS 128u	/* a power of 2 */
#define LUA_CACHED_POSITIONS 8u		/* of each function; a power of 2 */

struct lua_cached_frame {
	const void *instruction;	/* the next one of the call; NULL: empty */
	/*
	 * For a function without a name so far, the call that has none: another call of it may have
	 * a name. NULL: the function has a name.
	 */
	const void *caller;
	uint64_t frame;			/* of the function; 0: not cached */
	uint64_t c_frame;		/* of a C function that it calls there; 0: not cached */
};

/*
 * The frames of one Lua state. It has entries only for existing functions: the allocator of the
 * state calls rp_lua_frame_cache_forget() for each block that Lua frees. Only the thread that runs
 * the state uses it, and no signal handler.
 */
struct lua_frame_cache {
	uint64_t no_name;		/* the frame of each C function that C calls; 0: unknown */
	const void *prototypes[LUA_CACHED_FUNCTIONS];
	struct lua_cached_frame frames[LUA_CACHED_FUNCTIONS][LUA_CACHED_POSITIONS];
};

static inline unsigned int rp_lua_cached_index(const void *prototype)
{
	return (unsigned int)(((uintptr_t)prototype * 0x9e3779b97f4a7c15u) >> 40) %
	       LUA_CACHED_FUNCTIONS;
}

/* Drop the frames of a function that Lua frees. @block: any block of the state. */
static inline void rp_lua_frame_cache_forget(struct lua_frame_cache *cache, const void *block)
{
	const unsigned int index = rp_lua_cached_index(block);

	if (cache->prototypes[index] == block)
		cache->prototypes[index] = NULL;
}

/*
 * Return: the frame of a call; 0: the cache lacks it.
 * @L: a thread of the cache's state, which calls hooks and is at rest.
 * @call: of @L.
 */
uint64_t rp_lua_frame_cache_find(const struct lua_frame_cache *cache, const struct lua_call *call);

/* Remember the frame of a call. Parameters: as for rp_lua_frame_cache_find(). */
void rp_lua_frame_cache_add(struct lua_frame_cache *cache, const struct lua_call *call,
			    uint64_t frame, bool has_name);

#endif
