/* SPDX-License-Identifier: MIT */
/*
 * Interrupts a script at its machine instructions, and walks the stack of the Lua state there as
 * the library's signal handler does. The processor traps after each instruction of Lua and of the
 * module. A first run walks at every Nth instruction from the first one on, the second run from the
 * second one on, and so forth, so that N runs interrupt every instruction.
 *
 * The allocator moves each large block when it is resized and never uses memory twice. A walk that
 * reads a stack after Lua has left it therefore faults.
 *
 * usage: lua_steps SCRIPT N
 */
#include "../in_valgrind.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <ringpipe/host.h>

#ifdef __x86_64__

#define TRAP_FLAG 0x100u
#define ARENA_BYTES (1ull << 34)
#define LARGE_BYTES 256u
#define PAGE_BYTES 4096u

static struct rp_host host;
static struct rp_host_range interpreter;

static unsigned long every, first, steps, walks, stacks;
static const char *volatile fault;

/* The module registers its table here, because the symbols of a program come first. */
RP_PUBLIC int rp_host_register(const struct rp_host *table)
{
	host = *table;
	if (host.interpreter_count)
		interpreter = host.interpreters[0];
	return 0;
}

static char *arena;
static size_t arena_used;

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

static void release(void *memory, size_t bytes)
{
	if (bytes < LARGE_BYTES) {
		free(memory);
		return;
	}
	madvise(memory, whole_pages(bytes), MADV_DONTNEED);
	mprotect(memory, whole_pages(bytes), PROT_NONE);
}

static void *take(size_t bytes)
{
	void *memory = arena + arena_used;

	if (bytes < LARGE_BYTES)
		return malloc(bytes);
	if (whole_pages(bytes) > ARENA_BYTES - arena_used ||
	    mprotect(memory, whole_pages(bytes), PROT_READ | PROT_WRITE) != 0)
		return NULL;
	arena_used += whole_pages(bytes);
	return memory;
}

static void *allocate(void *data, void *memory, size_t old_bytes, size_t new_bytes)
{
	void *result = NULL;

	(void)data;
	if (new_bytes) {
		result = take(new_bytes);
		if (!result)
			return NULL;
	}
	if (memory && result)
		memcpy(result, memory, old_bytes < new_bytes ? old_bytes : new_bytes);
	if (memory)
		release(memory, old_bytes);
	return result;
}

/* Every frame has a name, and the outermost function is the script. */
static void check(const uint64_t *frames, int count)
{
	struct rp_host_method method = RP_HOST_METHOD_INIT;

	for (int i = 0; i < count; i++) {
		memset(method.name, 0, sizeof(method.name));
		if (frames[i] != RP_HOST_FRAME_NATIVE &&
		    host.resolve(frames[i], &method, host.data) != 0)
			fault = "a frame has no name";
	}
	if (count > 0 && strcmp(method.name, "main chunk") != 0)
		fault = "the stack does not end with the script";
}

static void walk(enum rp_host_walk_context context, void *signal_context)
{
	struct rp_host_walk request = {
		.size = sizeof(request), .context = context, .native = &interpreter.start,
		.native_count = 1, .thread = (uint32_t)gettid(), .signal_context = signal_context,
	};
	uint64_t frames[RP_STACK_MAX];
	int count;

	count = host.walk(&request, frames, RP_STACK_MAX, host.data);
	if (count > 0) {
		stacks++;
		check(frames, count);
	} else if (count < 0 && count != -EAGAIN) {
		fault = "the walk failed";
	}
}

static void set_stepping(bool is_on)
{
	const unsigned long long flags = __builtin_ia32_readeflags_u64();

	__builtin_ia32_writeeflags_u64(is_on ? flags | TRAP_FLAG :
				       flags & ~(unsigned long long)TRAP_FLAG);
}

/* The module calls this function at a safe point, which needs no traps. */
RP_PUBLIC int rp_host_sample_now(void)
{
	const bool is_stepping = __builtin_ia32_readeflags_u64() & TRAP_FLAG;

	set_stepping(false);
	walk(RP_HOST_WALK_SAFE_POINT, NULL);
	set_stepping(is_stepping);
	return 0;
}

static void on_step(int number, siginfo_t *info, void *context)
{
	const int saved = errno;

	(void)number;
	(void)info;
	if (steps++ % every == first) {
		walks++;
		walk(RP_HOST_WALK_SIGNAL, context);
	}
	errno = saved;
}

static void on_fault(int number)
{
	static const char message[] = "not ok - a walk in a signal handler read invalid memory\n";

	(void)number;
	(void)!write(STDOUT_FILENO, message, sizeof(message) - 1);
	_exit(1);
}

/* stepped(f, ...): call f, with a trap after each instruction. */
static int stepped(lua_State *L)
{
	set_stepping(true);
	lua_call(L, lua_gettop(L) - 1, 0);
	set_stepping(false);
	return 0;
}

static int fail(lua_State *L)
{
	lua_pushnil(L);
	return lua_error(L);
}

/* A C function that calls none, so the second signal finds it at rest. Its stack grows. */
static int grow(lua_State *L)
{
	const int slots = (int)lua_tointeger(L, 1);

	for (int i = 1; i < 4; i++)
		lua_checkstack(L, i * slots);
	return 0;
}

/*
 * A C function whose calls end by errors, so that no hook sees their ends, and whose stack shrinks
 * and grows between them.
 */
static int churn(lua_State *L)
{
	for (int i = 1; i < 3; i++) {
		lua_pushcfunction(L, fail);
		(void)lua_pcall(L, 0, 0, 0);
		lua_settop(L, 0);
		set_stepping(false);
		lua_gc(L, LUA_GCCOLLECT);
		set_stepping(true);
		lua_checkstack(L, 60 * i);
	}
	return 0;
}

static int run(lua_State *L)
{
	luaL_openlibs(L);
	lua_register(L, "stepped", stepped);
	lua_register(L, "churn", churn);
	lua_register(L, "grow", grow);
	if (luaL_loadfile(L, lua_touserdata(L, 1)) != LUA_OK)
		return lua_error(L);
	lua_gc(L, LUA_GCSTOP);
	lua_call(L, 0, 0);
	return 0;
}

static int run_once(const char *script)
{
	lua_State *L;
	int status;

	arena_used = 0;
	L = lua_newstate(allocate, NULL);
	if (!L)
		return -1;
	lua_pushcfunction(L, run);
	lua_pushlightuserdata(L, (void *)script);
	status = lua_pcall(L, 1, 0, 0);
	if (status != LUA_OK)
		printf("not ok - %s\n", lua_tostring(L, -1));
	lua_close(L);
	return status;
}

static void handle_signals(void)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };

	sigaction(SIGTRAP, &action, NULL);
	action.sa_flags = 0;
	action.sa_handler = on_fault;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

int main(int argc, char **argv)
{

	if (argc != 3)
		return 2;
	if (runs_in_valgrind()) {
		printf("valgrind has no trap flag\n");
		return 77;
	}
	every = strtoul(argv[2], NULL, 10);
	arena = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		     0);
	if (every == 0 || arena == MAP_FAILED)
		return 2;
	handle_signals();
	for (first = 0; first < every; first++) {
		steps = 0;
		if (run_once(argv[1]) != LUA_OK)
			return 1;
		if (fault) {
			printf("not ok - run %lu: %s\n", first, fault);
			return 1;
		}
	}
	printf("# figure: %lu instructions interrupted, %lu with a stack\n", walks, stacks);
	return walks > 1000 && stacks > 100 ? 0 : 1;
}

#else

int main(void)
{
	printf("only x86-64 has the trap flag\n");
	return 77;
}

#endif
