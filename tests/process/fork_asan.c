/* SPDX-License-Identifier: MIT */
/*
 * Takes the locks of AddressSanitizer's allocator around fork, as glibc does for malloc.
 * AddressSanitizer itself does not, up to LLVM 18: without this, a child may find the locks held
 * forever. Only the tested programs need this; the sanitizer still checks each call.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

/* The sanitizer's own functions, under the names that it provides for such wrappers. */
void *__interceptor_malloc(size_t size);
void *__interceptor_calloc(size_t count, size_t size);
void *__interceptor_realloc(void *memory, size_t size);
int __interceptor_posix_memalign(void **ret_memory, size_t alignment, size_t size);
void __interceptor_free(void *memory);

/* Not a mutex: these functions run before the sanitizer can observe one. */
static int held;
static __thread unsigned int depth __attribute__((tls_model("initial-exec")));

#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))

UNWATCHED static void enter(void)
{
	if (depth++)
		return;
	while (__atomic_exchange_n(&held, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

UNWATCHED static void leave(void)
{
	if (--depth == 0)
		__atomic_store_n(&held, 0, __ATOMIC_RELEASE);
}

UNWATCHED void *malloc(size_t size)
{
	void *memory;

	enter();
	memory = __interceptor_malloc(size);
	leave();
	return memory;
}

UNWATCHED void *calloc(size_t count, size_t size)
{
	void *memory;

	enter();
	memory = __interceptor_calloc(count, size);
	leave();
	return memory;
}

UNWATCHED void *realloc(void *memory, size_t size)
{
	void *moved;

	enter();
	moved = __interceptor_realloc(memory, size);
	leave();
	return moved;
}

UNWATCHED int posix_memalign(void **ret_memory, size_t alignment, size_t size)
{
	int ret;

	enter();
	ret = __interceptor_posix_memalign(ret_memory, alignment, size);
	leave();
	return ret;
}

UNWATCHED void free(void *memory)
{
	enter();
	__interceptor_free(memory);
	leave();
}

/*
 * Fork handlers run before a fork in the reverse order of registration. The allocator must come
 * last, after handlers that wait for locks whose holders may be allocating, so this registers
 * before the constructors of any library.
 */
UNWATCHED static void register_first(int argc, char **argv, char **environment)
{
	(void)argc, (void)argv, (void)environment;
	pthread_atfork(enter, leave, leave);
}

__attribute__((section(".preinit_array"), used))
static void (*const first)(int argc, char **argv, char **environment) = register_first;
