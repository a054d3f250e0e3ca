/* SPDX-License-Identifier: MIT */
/*
 * glibc's malloc takes its locks around fork. AddressSanitizer's allocator does not, up to LLVM 18,
 * so a child may inherit locks that no thread releases. In these programs, a fork therefore waits
 * until no other thread is in the allocator. Only the programs under test need this; the sanitizer
 * still sees each call.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

/* The sanitizer's functions, under the names that it provides for wrappers. */
void *__interceptor_malloc(size_t size);
void *__interceptor_calloc(size_t count, size_t size);
void *__interceptor_realloc(void *memory, size_t size);
int __interceptor_posix_memalign(void **ret_memory, size_t alignment, size_t size);
void __interceptor_free(void *memory);

/* Not a mutex: these functions run before the sanitizer can handle one. */
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
 * Handlers run before a fork in the reverse order of their registration. The allocator's handler
 * must run last, after handlers that wait for locks whose holders may be allocating. So it is
 * registered before the constructors of any library run.
 */
UNWATCHED static void register_first(int argc, char **argv, char **environment)
{
	(void)argc, (void)argv, (void)environment;
	pthread_atfork(enter, leave, leave);
}

__attribute__((section(".preinit_array"), used))
static void (*const first)(int argc, char **argv, char **environment) = register_first;
