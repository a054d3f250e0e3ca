/* SPDX-License-Identifier: MIT */
#include "modules/lua/lua_layout.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

int rp_lua_slot_read(uintptr_t function, struct lua_slot *ret_slot)
{
	struct iovec to = { ret_slot, sizeof(*ret_slot) };
	struct iovec from = { (void *)function, sizeof(*ret_slot) };
	const int saved = errno;
	const ssize_t bytes = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	const int ret = bytes == (ssize_t)sizeof(*ret_slot) ? 0 : bytes < 0 ? -errno : -EFAULT;

	if (ret != 0)
		ret_slot->type = LUA_SLOT_UNREADABLE;
	errno = saved;
	return ret;
}

/* The observations of the test of the layout, in the thread that runs it. */
static __thread struct {
	bool has_hook, hook_allows, has_function;
} seen __attribute__((tls_model("initial-exec")));

static void note_hook(lua_State *L, lua_Debug *ar)
{
	(void)ar;
	seen.has_hook = true;
	seen.hook_allows |= rp_lua_allows_hooks(L);
}

/* A C function with an upvalue, which lua_topointer() identifies. */
static int note_function(lua_State *L)
{
	struct lua_slot slot = { 0, 0 };
	lua_Debug ar;
	int ret;

	if (!lua_getstack(L, 0, &ar) || !lua_getinfo(L, "f", &ar))
		return 0;
	ret = rp_lua_slot_read(rp_lua_function_of(rp_lua_call_of(&ar)), &slot);
	/* Where a filter refuses the call, no handler reads a slot, so none walks. */
	seen.has_function = ret == -EPERM || ret == -ENOSYS ||
			    (ret == 0 && slot.value == (uintptr_t)lua_topointer(L, -1));
	return 0;
}

int rp_lua_layout_check(lua_State *L)
{
	const lua_Hook hook = lua_gethook(L);
	const int mask = lua_gethookmask(L), count = lua_gethookcount(L);
	const bool allows = rp_lua_allows_hooks(L);

	seen.has_hook = seen.hook_allows = seen.has_function = false;
	lua_pushnil(L);
	lua_pushcclosure(L, note_function, 1);
	lua_sethook(L, note_hook, LUA_MASKCALL, 0);
	if (lua_pcall(L, 0, 0, 0) != LUA_OK)
		lua_pop(L, 1);
	lua_sethook(L, hook, mask, count);
	/* If a hook of the program loads the module, Lua calls no other hook. */
	return seen.has_function && seen.has_hook == allows && !seen.hook_allows ? 0 : -ENOTSUP;
}

#define NOTES 5u

/* The observations of the chunk below, one of each call. */
static __thread struct {
	uintptr_t function;
	const void *prototype, *instruction, *outer;
} notes[NOTES] __attribute__((tls_model("initial-exec")));
static __thread unsigned int note_count __attribute__((tls_model("initial-exec")));

/* Return: whether the calls that follow each other are those of lua_getstack(). */
static bool has_calls(lua_State *L)
{
	const struct lua_call *call;
	lua_Debug ar;
	int level = 0;

	if (!lua_getstack(L, 0, &ar))
		return false;
	for (call = rp_lua_call_of(&ar); call->previous; call = call->previous) {
		if (!lua_getstack(L, level++, &ar) || rp_lua_call_of(&ar) != call)
			return false;
	}
	return !lua_getstack(L, level, &ar);
}

static int note_position(lua_State *L)
{
	const struct lua_call *call, *outer;
	struct lua_slot slot;
	lua_Debug ar;

	if (note_count == NOTES || !has_calls(L))
		return 0;
	(void)lua_getstack(L, 0, &ar);
	call = rp_lua_call_of(&ar);
	outer = call->previous->previous;
	if (!outer || rp_lua_prototype_of(call) ||
	    rp_lua_slot_read(rp_lua_function_of(call->previous), &slot) != 0)
		return 0;
	notes[note_count].function = slot.value;
	notes[note_count].prototype = rp_lua_prototype_of(call->previous);
	notes[note_count].instruction = call->previous->instruction;
	notes[note_count++].outer = rp_lua_prototype_of(outer);
	return 0;
}

bool rp_lua_layout_has_positions(lua_State *L)
{
	/* Two closures of one function, one of which makes its first call twice. */
	static const char chunk[] =
		"local note = ... "
		"local function create(count) "
		"	return function() for _ = 1, count do note() end note() end "
		"end "
		"local first, second = create(2), create(1) "
		"first() second()";
	const char *first, *last;
	bool is_same = true;

	note_count = 0;
	if (luaL_loadstring(L, chunk) != LUA_OK) {
		lua_pop(L, 1);
		return false;
	}
	lua_pushcfunction(L, note_position);
	if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
		lua_pop(L, 1);
		return false;
	}
	for (unsigned int i = 0; i < note_count; i++)
		is_same &= notes[i].prototype && notes[i].prototype == notes[0].prototype &&
			   notes[i].outer && notes[i].outer == notes[0].outer;
	if (note_count != NOTES || !is_same || notes[0].outer == notes[0].prototype)
		return false;
	first = notes[0].instruction;
	last = notes[2].instruction;
	return notes[0].function == notes[2].function && notes[0].function != notes[3].function &&
	       notes[1].instruction == first && notes[3].instruction == first &&
	       notes[4].instruction == last && first < last &&
	       (size_t)(last - first) % LUA_INSTRUCTION_BYTES == 0 && last - first < 64;
}
