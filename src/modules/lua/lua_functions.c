/* SPDX-License-Identifier: MIT */
/*
 * A table of functions, which only grows. Each entry has FRAMES_MAX addresses of a reserved range,
 * two for each line: the frame of a function at a line is the second of them. Readers subtract 1
 * from the address of a caller, because it is a return address, and so find the same line. A frame
 * needs no other memory, and names outlive the functions.
 *
 * A signal handler may need an entry while the thread that it interrupted creates one. It then
 * takes the next free entry, and the function has two entries with the same name.
 *
 * ORDERING
 *
 *	thread that creates an entry		thread that looks up an entry, or resolves a frame
 *	state: EMPTY -> FILLING
 *	write the members
 *	state = READY, release  [FUNCTION] ->	load state, acquire
 *						read the members
 *
 * `has_name` orders `name` in the same way, because a function may get its name later.
 */
#include "modules/lua/lua_functions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define FUNCTIONS_MAX 8192u		/* a power of 2 */
#define LINES_MAX 4096u
#define FRAMES_MAX (2 * LINES_MAX)
#define PROBES_MAX 64u
#define NAME_BYTES 64u

enum lua_entry_state { LUA_ENTRY_EMPTY, LUA_ENTRY_FILLING, LUA_ENTRY_READY };

struct lua_function {
	uint32_t state;			/* enum lua_entry_state */
	uint32_t has_name;		/* enum lua_entry_state, of `name` */
	uint32_t hash;
	int first_line;
	char file[LUA_IDSIZE];
	char name[NAME_BYTES];
};

static struct lua_function *functions;
static uint64_t base;

static void *reserve(size_t bytes, int protection)
{
	void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			    -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int rp_lua_functions_open(void)
{
	void *frames;

	if (functions)
		return 0;
	frames = reserve((size_t)FUNCTIONS_MAX * FRAMES_MAX, PROT_NONE);
	if (!frames)
		return -ENOMEM;
	functions = reserve(FUNCTIONS_MAX * sizeof(*functions), PROT_READ | PROT_WRITE);
	if (!functions) {
		munmap(frames, (size_t)FUNCTIONS_MAX * FRAMES_MAX);
		return -ENOMEM;
	}
	base = (uint64_t)(uintptr_t)frames;
	return 0;
}

struct rp_host_range rp_lua_functions_range(void)
{
	return (struct rp_host_range){ base, base + (uint64_t)FUNCTIONS_MAX * FRAMES_MAX };
}

/* FNV-1a of words instead of bytes, whose high half goes into the low one. */
static uint32_t add_to_hash(uint32_t hash, const char *text)
{
	uint64_t sum = hash, word;
	size_t left = strlen(text);

	for (; left > 0; text += sizeof(word)) {
		const size_t bytes = left < sizeof(word) ? left : sizeof(word);

		word = 0;
		memcpy(&word, text, bytes);
		sum = (sum ^ word) * 0x100000001b3u;
		sum ^= sum >> 32;
		left -= bytes;
	}
	return (uint32_t)sum;
}

static bool is_c(const lua_Debug *ar)
{
	return *ar->what == 'C';
}

/* The name of a function, or NULL. Lua knows it from the call, if the call has a name: else "?". */
static const char *name_of(const lua_Debug *ar)
{
	if (*ar->what == 'm')
		return "main chunk";
	return ar->name && strcmp(ar->name, "?") != 0 ? ar->name : NULL;
}

/* C functions have no line in a file, so their names distinguish them. */
static uint32_t hash_of(const lua_Debug *ar)
{
	uint32_t hash = add_to_hash(2166136261u + (uint32_t)ar->linedefined, ar->short_src);

	return is_c(ar) && name_of(ar) ? add_to_hash(hash, name_of(ar)) : hash;
}

static bool is_same(const struct lua_function *function, const lua_Debug *ar, uint32_t hash)
{
	const char *name = is_c(ar) ? name_of(ar) : NULL;

	return function->hash == hash && function->first_line == ar->linedefined &&
	       strcmp(function->file, ar->short_src) == 0 &&
	       (!is_c(ar) || strncmp(function->name, name ? name : "", NAME_BYTES - 1) == 0);
}

static void set_name(struct lua_function *function, const lua_Debug *ar)
{
	const char *name = name_of(ar);
	uint32_t expected = LUA_ENTRY_EMPTY;

	if (!name || __atomic_load_n(&function->has_name, __ATOMIC_RELAXED) != LUA_ENTRY_EMPTY ||
	    !__atomic_compare_exchange_n(&function->has_name, &expected, LUA_ENTRY_FILLING, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	strncpy(function->name, name, NAME_BYTES - 1);
	__atomic_store_n(&function->has_name, LUA_ENTRY_READY, __ATOMIC_RELEASE);
}

/* Return: the entry; NULL: none is free where it may be. */
static struct lua_function *find_or_create(const lua_Debug *ar)
{
	uint32_t hash = hash_of(ar);

	for (uint32_t i = 0; i < PROBES_MAX; i++) {
		struct lua_function *function = &functions[(hash + i) % FUNCTIONS_MAX];
		uint32_t state = __atomic_load_n(&function->state, __ATOMIC_ACQUIRE);

		if (state == LUA_ENTRY_READY && is_same(function, ar, hash))
			return function;
		if (state != LUA_ENTRY_EMPTY ||
		    !__atomic_compare_exchange_n(&function->state, &state, LUA_ENTRY_FILLING, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		function->hash = hash;
		function->first_line = ar->linedefined;
		memcpy(function->file, ar->short_src, sizeof(function->file));
		set_name(function, ar);
		/* [FUNCTION] */
		__atomic_store_n(&function->state, LUA_ENTRY_READY, __ATOMIC_RELEASE);
		return function;
	}
	return NULL;
}

uint64_t rp_lua_frame_of(lua_State *L, lua_Debug *ar, bool *ret_has_name)
{
	struct lua_function *function;
	int line = ar->currentline - ar->linedefined;

	ar->name = NULL;
	if (is_c(ar))
		lua_getinfo(L, "n", ar);
	function = find_or_create(ar);
	if (!function)
		return 0;
	if (!ar->name &&
	    __atomic_load_n(&function->has_name, __ATOMIC_RELAXED) == LUA_ENTRY_EMPTY) {
		lua_getinfo(L, "n", ar);
		set_name(function, ar);
	}
	*ret_has_name = __atomic_load_n(&function->has_name, __ATOMIC_RELAXED) != LUA_ENTRY_EMPTY;
	if (line < 0 || is_c(ar))
		line = 0;
	if (line >= (int)LINES_MAX)
		line = (int)LINES_MAX - 1;
	return base + (uint64_t)(function - functions) * FRAMES_MAX + 2 * (uint64_t)line + 1;
}

int rp_lua_frame_resolve(uint64_t frame, struct rp_host_method *ret_method, void *data)
{
	struct rp_host_range range = rp_lua_functions_range();
	const struct lua_function *function;

	(void)data;
	if (frame < range.start || frame >= range.end)
		return -ENOENT;
	function = &functions[(frame - range.start) / FRAMES_MAX];
	/* [FUNCTION] */
	if (__atomic_load_n(&function->state, __ATOMIC_ACQUIRE) != LUA_ENTRY_READY)
		return -ENOENT;
	ret_method->start = frame & ~1ull;
	ret_method->end = ret_method->start + 2;
	snprintf(ret_method->name, sizeof(ret_method->name), "%s",
		 __atomic_load_n(&function->has_name, __ATOMIC_ACQUIRE) == LUA_ENTRY_READY ?
		 function->name : "function");
	snprintf(ret_method->file, sizeof(ret_method->file), "%s", function->file);
	if (function->first_line >= 0)
		ret_method->line = (uint32_t)function->first_line +
				   (uint32_t)((frame - range.start) % FRAMES_MAX / 2);
	return 0;
}
