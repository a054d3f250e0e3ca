/* SPDX-License-Identifier: MIT */
/*
 * The allocator of a Lua state, around the state's own one. It counts the bytes in use, because
 * lua_gc() does not count inside a finalizer. It also shows when the state's stack may be moving,
 * so that no walk begins then, and drops the frames of functions that Lua frees.
 */
#include "modules/lua/lua_heap.h"

#include <errno.h>
#include <stdlib.h>

#include "modules/lua/lua_frame_cache.h"

static void *allocate(void *data, void *memory, size_t old_bytes, size_t new_bytes)
{
	struct lua_heap *heap = data;
	void *result;

	if (heap->frames && memory && new_bytes == 0)
		rp_lua_frame_cache_forget(heap->frames, memory);
	heap->calls_inside++;
	result = heap->next(heap->next_data, memory, old_bytes, new_bytes);
	heap->moves += memory != NULL;
	/* If Lua has the block's address elsewhere, it corrects that before the next call. */
	heap->moved_from = memory;
	heap->moved_bytes = memory && result && result != memory ? old_bytes : 0;
	/* A handler that finds no call inside also finds the move. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	heap->calls_inside--;
	if (!result && new_bytes)
		return NULL;
	heap->bytes += new_bytes - (memory ? old_bytes : 0);
	/* The last block of a state is the state. */
	if (heap->bytes == 0) {
		free(heap->frames);
		free(heap);
	}
	return result;
}

struct lua_heap *rp_lua_heap_of(lua_State *L)
{
	void *data;

	return lua_getallocf(L, &data) == allocate ? data : NULL;
}

int rp_lua_heap_open(lua_State *L)
{
	struct lua_heap *heap;

	if (rp_lua_heap_of(L))
		return 0;
	heap = calloc(1, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	heap->next = lua_getallocf(L, &heap->next_data);
	heap->bytes = (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB);
	lua_setallocf(L, allocate, heap);
	return 0;
}
