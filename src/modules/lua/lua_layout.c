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
