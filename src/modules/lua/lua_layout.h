/* SPDX-License-Identifier: MIT */
/*
 * Facts that lua.h hides. A walk in a signal handler needs to know whether Lua calls hooks, and
 * where a call has its function. The cache of frames needs the positions of calls in the code. All
 * releases from Lua 5.4.0 to 5.4.8 have them in the same places, which rp_lua_layout_check() and
 * rp_lua_layout_has_positions() test in the running Lua.
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
#define LUA_SLOT_CLOSURE 0x46u		/* the type of a function in Lua */
#define LUA_PROTOTYPE_OFFSET 24u	/* where its value has the code and tables that it shares */
#define LUA_INSTRUCTION_BYTES 4u

/* The beginning of a call. */
struct lua_call {
	uintptr_t function;	/* the address of its slot; or an offset, see rp_lua_is_moving() */
	const void *top;
	const struct lua_call *previous, *next;	/* the outermost call has no previous one */
	const void *instruction;	/* of a function in Lua: the one after that which runs */
};

/*
 * Test that this Lua has its state where this file says.
 * Return: 0; -ENOTSUP. It may raise an error for lack of memory.
 */
int rp_lua_layout_check(lua_State *L);

/*
 * Return: whether calls have the members of struct lua_call after `function`, and functions have
 * their prototype, where this file says.
 */
bool rp_lua_layout_has_positions(lua_State *L);

/* The call of a level, which no other level has. */
static inline const struct lua_call *rp_lua_call_of(const lua_Debug *ar)
{
	return (const struct lua_call *)ar->i_ci;
}

/* Let a lua_Debug describe another call of its thread. */
static inline void rp_lua_set_call(lua_Debug *ar, const struct lua_call *call)
{
	ar->i_ci = (struct CallInfo *)(uintptr_t)call;
}

static inline uintptr_t rp_lua_function_of(const struct lua_call *call)
{
	return *(const volatile uintptr_t *)&call->function;
}

/*
 * Return: the prototype of a call's function, which all closures of the same code share; NULL: the
 * function is one of C. Context: the thread that runs the state, which is at rest.
 */
static inline const void *rp_lua_prototype_of(const struct lua_call *call)
{
	const struct lua_slot *slot = (const struct lua_slot *)call->function;

	return slot->type == LUA_SLOT_CLOSURE ?
	       *(const void *const *)(slot->value + LUA_PROTOTYPE_OFFSET) : NULL;
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
