/* SPDX-License-Identifier: MIT */
/* The memory of a Lua state. */
#ifndef RP_LUA_HEAP_H
#define RP_LUA_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "modules/lua/lua_module.h"

struct lua_frame_cache;

struct lua_heap {
	lua_Alloc next;			/* the state's own allocator */
	void *next_data;
	size_t bytes;			/* in use */
	unsigned int calls_inside;	/* above 0 while the thread is in `next` */
	uint64_t moves;			/* blocks that were resized or freed so far */
	const void *moved_from;		/* the place that the last call moved a block from */
	size_t moved_bytes;		/* of that place; 0: the last call moved none */
	struct lua_frame_cache *frames;	/* NULL: none */
};

/*
 * Put the allocator around that of a state, if it is not there yet.
 * Return: 0; -ENOMEM.
 */
int rp_lua_heap_open(lua_State *L);

/* Return: the memory of a state; NULL: another allocator was set since. Context: any. */
struct lua_heap *rp_lua_heap_of(lua_State *L);

#endif
