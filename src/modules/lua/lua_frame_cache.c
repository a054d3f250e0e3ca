/* SPDX-License-Identifier: MIT */
#include "modules/lua/lua_frame_cache.h"

#include <string.h>

/* The caller of a function that C calls. */
static const char called_by_c;

/* The place of a call in the code, which determines its frame. */
struct lua_position {
	const void *prototype;		/* of the function, or of the caller of a C function */
	const void *instruction;	/* of the same */
	const void *caller;
	bool is_c;
};

/* Return: whether the call has a position. A C function that C calls has none. */
static bool get_position(const struct lua_call *call, struct lua_position *ret_position)
{
	const void *prototype = rp_lua_prototype_of(call);
	const void *caller = rp_lua_prototype_of(call->previous);

	ret_position->is_c = !prototype;
	ret_position->prototype = prototype ? prototype : caller;
	ret_position->instruction = prototype ? call->instruction : call->previous->instruction;
	ret_position->caller = caller ? call->previous->instruction : &called_by_c;
	return ret_position->prototype != NULL;
}

static unsigned int slot_of(const void *instruction)
{
	return ((uintptr_t)instruction / LUA_INSTRUCTION_BYTES) % LUA_CACHED_POSITIONS;
}

uint64_t rp_lua_frame_cache_find(const struct lua_frame_cache *cache, const struct lua_call *call)
{
	const struct lua_cached_frame *cached;
	struct lua_position position;
	unsigned int index;

	if (!get_position(call, &position))
		return cache->no_name;
	index = rp_lua_cached_index(position.prototype);
	cached = &cache->frames[index][slot_of(position.instruction)];
	if (cache->prototypes[index] != position.prototype ||
	    cached->instruction != position.instruction)
		return 0;
	if (position.is_c)
		return cached->c_frame;
	return cached->caller && cached->caller != position.caller ? 0 : cached->frame;
}

void rp_lua_frame_cache_add(struct lua_frame_cache *cache, const struct lua_call *call,
			    uint64_t frame, bool has_name)
{
	struct lua_cached_frame *cached;
	struct lua_position position;
	unsigned int index;

	if (!get_position(call, &position)) {
		cache->no_name = frame;
		return;
	}
	index = rp_lua_cached_index(position.prototype);
	cached = &cache->frames[index][slot_of(position.instruction)];
	if (cache->prototypes[index] != position.prototype) {
		memset(cache->frames[index], 0, sizeof(cache->frames[index]));
		cache->prototypes[index] = position.prototype;
	}
	if (cached->instruction != position.instruction)
		*cached = (struct lua_cached_frame){ .instruction = position.instruction };
	if (position.is_c) {
		cached->c_frame = frame;
		return;
	}
	cached->caller = has_name ? NULL : position.caller;
	cached->frame = frame;
}
