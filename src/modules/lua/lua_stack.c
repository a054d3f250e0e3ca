/* SPDX-License-Identifier: MIT */
/*
 * A signal may interrupt the interpreter while the stack of a state moves or a call is half made.
 * The handler therefore does not read the stack. It sets a hook, which Lua allows in a handler. Lua
 * calls the hook at the next call, return or instruction. There the sample gets its Lua frames and,
 * from the library, the native frames of the interrupted instruction.
 *
 * A C function that runs longer than a sampling interval calls no hook. The stack was at rest all
 * the time between two signals in succession, and the second handler reads it, if
 *  - Lua calls hooks, but has called none, and both signals find the same call,
 *  - the state resized and freed no memory, so no stack moved,
 *  - the function of the call is still in its place on the stack, where a call that returns puts
 *    its first result, and
 *  - no call that the walk reads refers to memory that its stack has left.
 */
#include "modules/lua/lua_stack.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ringpipe/host.h>

#include "modules/lua/lua_frame_cache.h"
#include "modules/lua/lua_functions.h"
#include "modules/lua/lua_heap.h"
#include "modules/lua/lua_interpreter.h"
#include "modules/lua/lua_layout.h"

/* Lua itself allows about 200 coroutines that resume each other. */
#define RUNNING_MAX 256
#define SAMPLE_MASK (LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT)

/* A hook of the program. */
struct lua_saved_hook {
	lua_Hook function;
	int mask, count;
};

/*
 * The Lua state that a thread runs. A signal handler of the same thread reads it. The memory is
 * never freed, only used for another state, because the state may be closed by another thread.
 */
struct lua_running {
	struct lua_running *next;		/* in `unused` */
	const void *owner;			/* the address of the thread's `running` */
	lua_State *threads[RUNNING_MAX];	/* of Lua: the main one and coroutines in it */
	volatile unsigned int depth;		/* 0: the state is closed */
	/* The request of a handler, until the hook runs. */
	lua_State *hooked;			/* NULL: none */
	struct lua_saved_hook saved;
	const struct lua_call *call;		/* the interrupted call */
	uintptr_t function;			/* of the call, at that time */
	struct lua_slot slot;			/* at `function` */
	uint64_t moves;				/* of struct lua_heap, at that time */
	bool is_waiting;			/* the library waits for the hook's sample */
	bool is_writing;			/* in rp_lua_write_at_rest() */
};

static __thread struct lua_running *running __attribute__((tls_model("initial-exec")));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of `unused`, of registration */
static struct lua_running *unused;

static struct rp_host_range interpreter;	/* empty: not found */
static uint64_t signal_return;			/* where handlers return to; 0: unknown */

/* Return: the state of this thread, or NULL. */
static struct lua_running *get_running(void)
{
	struct lua_running *state = running;

	return state && state->owner == &running && state->depth > 0 ? state : NULL;
}

/* Frames that grow. */
struct lua_frames {
	uint64_t *frames;
	unsigned int count, max;
	unsigned int last_lua;		/* frames up to the last function of Lua's */
};

static void add_frame(struct lua_frames *stack, uint64_t frame)
{
	if (stack->count < stack->max)
		stack->frames[stack->count++] = frame;
}

/* Return: the frame of a call that the cache lacks. @cache: NULL: none. */
static uint64_t find_frame(lua_State *L, lua_Debug *ar, struct lua_frame_cache *cache,
			   bool *ret_is_c)
{
	bool has_name;
	uint64_t frame;

	lua_getinfo(L, "S", ar);
	*ret_is_c = *ar->what == 'C';
	/* A function of C has no line, and Lua might look for one in a call that begins. */
	ar->currentline = -1;
	if (!*ret_is_c)
		lua_getinfo(L, "l", ar);
	frame = rp_lua_frame_of(L, ar, &has_name);
	if (frame && cache)
		rp_lua_frame_cache_add(cache, rp_lua_call_of(ar), frame, has_name);
	return frame;
}

/* Go to the caller. Return: whether there is one. @level: of the caller. */
static bool go_to_caller(lua_State *L, int level, bool has_layout, lua_Debug *ar)
{
	const struct lua_call *caller;

	/* Lua counts the calls from the innermost one on each time. */
	if (!has_layout)
		return lua_getstack(L, level, ar);
	caller = rp_lua_call_of(ar)->previous;
	rp_lua_set_call(ar, caller);
	return caller->previous != NULL;
}

/*
 * Add the functions of a Lua thread from a level on. The interpreter is invoked again for the
 * functions that a C function calls.
 * @cache: NULL: the thread may not be at rest, or its Lua has another layout.
 */
static void add_thread(lua_State *L, int level, struct lua_frame_cache *cache,
		       struct lua_frames *stack)
{
	bool has_lua = false, has_call;
	lua_Debug ar;

	/* The name of a finalizer or a hook is not in the code of the interrupted function. */
	if (cache && !rp_lua_allows_hooks(L))
		cache = NULL;
	has_call = lua_getstack(L, level, &ar);
	while (has_call && stack->count < stack->max) {
		uint64_t frame = cache ? rp_lua_frame_cache_find(cache, rp_lua_call_of(&ar)) : 0;
		bool is_c = frame && !rp_lua_prototype_of(rp_lua_call_of(&ar));

		if (!frame)
			frame = find_frame(L, &ar, cache, &is_c);
		if (is_c && has_lua) {
			add_frame(stack, RP_HOST_FRAME_NATIVE);
			has_lua = false;
		}
		if (frame)
			add_frame(stack, frame);
		has_lua |= !is_c;
		if (!is_c)
			stack->last_lua = stack->count;
		has_call = go_to_caller(L, ++level, cache, &ar);
	}
}

/* Return: the level of a call in a Lua thread; 0 if the call has ended. */
static int level_of(lua_State *L, const struct lua_call *call)
{
	lua_Debug ar;

	for (int level = 0; level < (int)RP_STACK_MAX && lua_getstack(L, level, &ar); level++) {
		if (rp_lua_call_of(&ar) == call)
			return level;
	}
	return 0;
}

static int add_threads(const struct lua_running *state, int level,
		       struct lua_frame_cache *cache, uint64_t *frames, unsigned int max)
{
	struct lua_frames stack = { frames, 0, max, 0 };

	for (unsigned int i = state->depth; i > 0; i--) {
		if (i != state->depth)
			add_frame(&stack, RP_HOST_FRAME_NATIVE);
		add_thread(state->threads[i - 1], level, cache, &stack);
		level = 0;
	}
	/* C functions below the first function of Lua's are native frames already. */
	return (int)stack.last_lua;
}

static bool is_in_interpreter(const struct rp_host_walk *walk)
{
	for (uint32_t i = 0; i < walk->native_count; i++) {
		if (walk->native[i] >= interpreter.start && walk->native[i] <= interpreter.end)
			return true;
	}
	return interpreter.end == 0;
}

/* An event of a signal handler, which may have interrupted the interpreter anywhere. */
static bool is_in_signal_handler(const struct rp_host_walk *walk)
{
	for (uint32_t i = 0; i < walk->native_count; i++) {
		if (signal_return && walk->native[i] == signal_return)
			return true;
	}
	return false;
}

static void on_safe_point(lua_State *L, lua_Debug *ar);

static void set_hook(struct lua_running *state, lua_State *L)
{
	/* A coroutine has the hook already if it was created while another one had it. */
	state->saved = lua_gethook(L) == on_safe_point ? (struct lua_saved_hook){ NULL, 0, 0 } :
		       (struct lua_saved_hook){ lua_gethook(L), lua_gethookmask(L),
						lua_gethookcount(L) };
	state->hooked = L;
	lua_sethook(L, on_safe_point, SAMPLE_MASK, 1);
}

/* Return: whether `threads` contains a Lua thread. */
static bool is_running(const struct lua_running *state, const lua_State *L)
{
	for (unsigned int i = 0; i < state->depth; i++) {
		if (state->threads[i] == L)
			return true;
	}
	return false;
}

/* Return: whether a call that add_threads() reads may be moving. */
static bool has_moving(const struct lua_running *state, const struct lua_heap *heap)
{
	for (unsigned int i = state->depth; i > 0; i--) {
		lua_Debug ar;

		/* The name of a function is that of the call in its caller. */
		for (int level = 0; level <= (int)RP_STACK_MAX &&
				    lua_getstack(state->threads[i - 1], level, &ar); level++) {
			if (rp_lua_is_moving(heap, rp_lua_call_of(&ar)))
				return true;
		}
	}
	return false;
}

/* A call of a function of Lua's that is about to begin has no position in the code yet. */
static bool is_in_c(lua_State *L, lua_Debug *ar)
{
	lua_getinfo(L, "S", ar);
	return *ar->what == 'C';
}

/* Note the call that a handler interrupted. Return: whether its function was there before. */
static bool note_call(struct lua_running *state, const struct lua_call *call)
{
	const uintptr_t function = rp_lua_function_of(call);
	bool is_same = call == state->call && function == state->function;
	struct lua_slot slot = { 0, 0 };

	(void)rp_lua_slot_read(function, &slot);
	is_same &= slot.type != LUA_SLOT_UNREADABLE && slot.type == state->slot.type &&
		   slot.value == state->slot.value;
	state->call = call;
	state->function = function;
	state->slot = slot;
	return is_same;
}

static int walk_in_handler(struct lua_running *state, uint64_t *ret_frames, unsigned int max)
{
	lua_State *L = state->threads[state->depth - 1];
	const struct lua_heap *heap = rp_lua_heap_of(L);
	bool is_at_rest;
	lua_Debug ar;

	/*
	 * A coroutine that ended by an error may never call its hook, and the program may have
	 * replaced the hook by its own.
	 */
	if (state->hooked && (!is_running(state, state->hooked) ||
			      lua_gethook(state->hooked) != on_safe_point))
		state->hooked = NULL;
	if (!heap || !rp_lua_allows_hooks(L) || !lua_getstack(L, 0, &ar) ||
	    (state->hooked && state->hooked != L))
		return 0;
	is_at_rest = note_call(state, rp_lua_call_of(&ar)) && state->hooked &&
		     heap->calls_inside == 0 && heap->moves == state->moves &&
		     !has_moving(state, heap) && is_in_c(L, &ar);
	if (!state->hooked)
		set_hook(state, L);
	state->moves = heap->moves;
	state->is_waiting = !is_at_rest;
	return is_at_rest ? add_threads(state, 0, NULL, ret_frames, max) : -EAGAIN;
}

static int walk_stack(const struct rp_host_walk *walk, uint64_t *ret_frames, unsigned int max,
		      void *data)
{
	struct lua_running *state = get_running();
	const struct lua_heap *heap;

	(void)data;
	if (!state)
		return 0;
	if (walk->context == RP_HOST_WALK_SAFE_POINT) {
		lua_State *L = state->threads[state->depth - 1];

		return add_threads(state, level_of(L, state->call), NULL, ret_frames, max);
	}
	heap = rp_lua_heap_of(state->threads[0]);
	/* The library begins no walk for an event in another one, so the cache has one user. */
	if (walk->context == RP_HOST_WALK_EVENT && state->is_writing)
		return add_threads(state, 0, heap ? heap->frames : NULL, ret_frames, max);
	if (!is_in_interpreter(walk))
		return 0;
	if (walk->context == RP_HOST_WALK_SIGNAL)
		return walk_in_handler(state, ret_frames, max);
	if (!heap || heap->calls_inside || is_in_signal_handler(walk))
		return 0;
	return add_threads(state, 0, NULL, ret_frames, max);
}

/* Record that a Lua thread runs, and that those which it had resumed do not. */
static void set_current(struct lua_running *state, lua_State *L)
{
	for (unsigned int i = state->depth; i > 0; i--) {
		if (state->threads[i - 1] == L) {
			state->depth = i;
			return;
		}
	}
}

int rp_lua_write_at_rest(lua_State *L, struct rp_event *event, const struct rp_part *parts,
			 unsigned int part_count)
{
	struct lua_running *state = get_running();
	int ret;

	if (state) {
		set_current(state, L);
		state->is_writing = state->threads[state->depth - 1] == L;
	}
	ret = rp_event_write(event, parts, part_count);
	if (state)
		state->is_writing = false;
	return ret;
}

/* Call the hook of the program for an event that the hook of the sample replaced. */
static void call_saved(const struct lua_saved_hook *saved, lua_State *L, lua_Debug *ar)
{
	int mask = ar->event == LUA_HOOKTAILCALL ? LUA_MASKCALL : 1 << ar->event;

	if (saved->function && (saved->mask & mask) && ar->event != LUA_HOOKCOUNT)
		saved->function(L, ar);
}

static void on_safe_point(lua_State *L, lua_Debug *ar)
{
	struct lua_running *state = get_running();
	struct lua_saved_hook saved;
	bool is_waiting;

	if (!state || state->hooked != L) {
		/* A coroutine that was created meanwhile inherited the hook. */
		lua_sethook(L, NULL, 0, 0);
		return;
	}
	saved = state->saved;
	set_current(state, L);
	/* A handler that sets the hook between these lines later finds that it was replaced. */
	state->hooked = NULL;
	lua_sethook(L, saved.function, saved.mask, saved.count);
	is_waiting = state->is_waiting;
	state->is_waiting = false;
	if (is_waiting)
		(void)rp_host_sample_now();
	call_saved(&saved, L, ar);
}

bool rp_lua_thread_enter(lua_State *L, lua_State *coroutine)
{
	struct lua_running *state = get_running();

	if (!state)
		return false;
	set_current(state, L);
	if (state->threads[state->depth - 1] != L || state->depth == RUNNING_MAX)
		return false;
	state->threads[state->depth] = coroutine;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	state->depth++;
	return true;
}

void rp_lua_thread_leave(lua_State *L)
{
	set_current(running, L);
}

static void find_signal_return(void)
{
#ifdef __x86_64__
	/* The kernel's struct of sigaction(2). */
	struct {
		uint64_t handler, flags, restorer, mask;
	} raw = { 0, 0, 0, 0 };
	struct sigaction action = { .sa_handler = SIG_IGN }, old;

	/* libc sets the restorer with each action. SIGURG is ignored by default. */
	if (sigaction(SIGURG, NULL, &old) != 0)
		return;
	if (!(old.sa_flags & SA_SIGINFO) && old.sa_handler == SIG_DFL)
		(void)sigaction(SIGURG, &action, NULL);
	if (syscall(SYS_rt_sigaction, SIGURG, NULL, &raw, sizeof(raw.mask)) == 0)
		signal_return = raw.restorer;
	(void)sigaction(SIGURG, &old, NULL);
#endif
}

static void list_modules(rp_host_module_visitor visit, void *visit_data, void *data)
{
	const struct rp_host_module module = {
		.size = sizeof(module), .range = rp_lua_functions_range(), .path = "[lua]",
	};

	(void)data;
	visit(&module, visit_data);
}

/* Register the host, once for all states. @found: the interpreter; NULL: it was not found. */
static int register_host(const struct rp_host_range *found)
{
	static bool is_registered;
	struct rp_host host = RP_HOST_INIT;
	int ret = 0;

	pthread_mutex_lock(&lock);
	if (!is_registered)
		ret = rp_lua_functions_open();
	if (!is_registered && ret == 0) {
		find_signal_return();
		if (found) {
			interpreter = *found;
			host.interpreters = found;
			host.interpreter_count = 1;
		}
		host.walk = walk_stack;
		host.resolve = rp_lua_frame_resolve;
		host.list_modules = list_modules;
		ret = rp_host_register(&host);
		is_registered = ret == 0;
	}
	pthread_mutex_unlock(&lock);
	return ret == -EBUSY ? 0 : ret;
}

/* The state is being closed. */
static int close_running(lua_State *L)
{
	struct lua_running *state = *(struct lua_running **)lua_touserdata(L, 1);

	state->depth = 0;
	state->owner = NULL;
	pthread_mutex_lock(&lock);
	state->next = unused;
	unused = state;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Return: the memory of a closed state, or new memory; NULL: none. */
static struct lua_running *take_unused(void)
{
	struct lua_running *state;

	pthread_mutex_lock(&lock);
	state = unused;
	if (state)
		unused = state->next;
	pthread_mutex_unlock(&lock);
	if (!state)
		return calloc(1, sizeof(*state));
	*state = (struct lua_running){ .next = NULL };
	return state;
}

static int open_running(lua_State *L)
{
	static const char key;
	struct lua_running **handle, *state;

	/* Before the state is taken: these calls may leave by an error. */
	handle = lua_newuserdatauv(L, sizeof(struct lua_running *), 0);
	lua_createtable(L, 0, 1);
	lua_pushcfunction(L, close_running);
	lua_setfield(L, -2, "__gc");
	lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
	lua_pushvalue(L, -3);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
	state = take_unused();
	if (!state)
		return -ENOMEM;
	*handle = state;
	state->threads[0] = lua_tothread(L, -1);
	lua_pop(L, 1);
	lua_setmetatable(L, -2);
	state->owner = &running;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	state->depth = 1;
	running = state;
	return 0;
}

/* Without memory or with another layout, each stack asks Lua for all its functions. */
static void open_cache(lua_State *L)
{
	struct lua_heap *heap = rp_lua_heap_of(L);

	if (heap && !heap->frames && rp_lua_layout_has_positions(L))
		heap->frames = calloc(1, sizeof(*heap->frames));
}

int rp_lua_stack_open(lua_State *L)
{
	int top = lua_gettop(L), ret;
	struct rp_host_range found;

	ret = rp_lua_layout_check(L);
	if (ret == 0)
		ret = register_host(rp_lua_interpreter_find(L, &found) == 0 ? &found : NULL);
	if (ret == 0)
		open_cache(L);
	if (ret == 0)
		ret = open_running(L);
	lua_settop(L, top);
	return ret;
}
