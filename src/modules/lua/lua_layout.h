/* SPDX-License-Identifier: MIT */
/*
 * Two facts that lua.h hides, and that a walk in a signal handler needs: whether Lua calls hooks,
 * and where a call has its function. All releases from Lua 5.4.0 to 5.4.8 have them in the same
 * places, which rp_lua_layout_check() tests in the running Lua.
 */
#ifndef RP_LUA_LAYOUT_H
#define RP_LUA_LAYOUT_H

#include "modules/lua/lua_heap.h"
#include "modules/lua/lua_module.h"

/* A value on the stack of a Lua thread. */
struct lua_slot {
	uint64_t value;
	uint8_t type;
};

#define LUA_SLOT_UNREADABLE UINT8_MAX	/* a type that no value has */

/* The beginning of a call. */
struct lua_call {
	uintptr_t function;	/* the address of its slot; or an offset, see rp_lua_is_moving() */
};

/*
 * Test that this Lua has its state where this file says.
 * Return: 0; -ENOTSUP. It may raise an error for lack of memory.
 */
int rp_lua_layout_check(lua_State *L);

/* The call of a level, which no other level has. */
static inline const struct lua_call *rp_lua_call_of(const lua_Debug *ar)
{
	return (const struct lua_call *)ar->i_ci;
}

static inline uintptr_t rp_lua_function_of(const struct lua_call *call)
{
	return *(const volatile uintptr_t *)&call->function;
}

/*
 * Return: whether Lua calls hooks now. It calls none in a finalizer or another hook, where it may
 * run any number of functions between two signals. The byte comes after the header of an object
 * and `status`. Context: any.
 */
static inline bool rp_lua_allows_hooks(const lua_State *L)
{
	return ((const volatile uint8_t *)L)[sizeof(void *) + 3] == 1;
}

/*
 * Return: whether a call refers to its function by an offset, as since Lua 5.4.5 while the stack
 * moves, or by an address that the stack has left, as until Lua 5.4.2. An offset is below
 * LUAI_MAXSTACK values of 16 bytes. Lua corrects one call after another, from the innermost one on.
 * Context: any.
 */
static inline bool rp_lua_is_moving(const struct lua_heap *heap, const struct lua_call *call)
{
	const uintptr_t function = rp_lua_function_of(call);

	return function < 1u << 25 ||
	       function - (uintptr_t)heap->moved_from < heap->moved_bytes;
}

/*
 * Read the slot of a call's function. A call that begins may still have the address of an earlier
 * one, whose memory the stack has left, so the kernel checks the address. Context: any.
 * Return: 0; -errno of process_vm_readv(2), and the type is LUA_SLOT_UNREADABLE.
 */
int rp_lua_slot_read(uintptr_t function, struct lua_slot *ret_slot);

#endif
