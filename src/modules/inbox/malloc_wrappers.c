/* SPDX-License-Identifier: MIT */
/*
 * The functions of malloc(3). Operator new of libstdc++ calls malloc(3), and so do the functions of
 * libc that return memory.
 *
 * The first call may come from the loader, before any constructor. dlsym(3) allocates only to
 * report an error, and accepts that it gets no memory for it.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "modules/inbox/heap_sampler.h"
#include "modules/inbox/heap_samples.h"

static void *malloc_first(size_t size);
static void free_none(void *block);

/* The first call of malloc(3) finds all of them, so that its wrapper need not test for that. */
static struct {
	void *(*malloc)(size_t size);
	void (*free)(void *block);
	void *(*calloc)(size_t count, size_t size);
	void *(*realloc)(void *block, size_t size);
	int (*posix_memalign)(void **ret_block, size_t alignment, size_t size);
	void *(*aligned_alloc)(size_t alignment, size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	void *(*valloc)(size_t size);
	void *(*pvalloc)(size_t size);
} next = { .malloc = malloc_first, .free = free_none };

static __thread bool is_resolving __attribute__((tls_model("initial-exec")));

void rp_inbox_malloc_init(void)
{
	if (next.malloc != malloc_first || is_resolving)
		return;
	is_resolving = true;
	next.free = rp_inbox_next("free");
	next.calloc = rp_inbox_next("calloc");
	next.realloc = rp_inbox_next("realloc");
	next.posix_memalign = rp_inbox_next("posix_memalign");
	next.aligned_alloc = rp_inbox_next("aligned_alloc");
	next.memalign = rp_inbox_next("memalign");
	next.valloc = rp_inbox_next("valloc");
	next.pvalloc = rp_inbox_next("pvalloc");
	next.malloc = rp_inbox_next("malloc");
	is_resolving = false;
}

/* Return: whether the functions of libc are known. Otherwise dlsym(3) runs in this thread. */
static __attribute__((noinline)) bool is_ready_slow(void)
{
	rp_inbox_malloc_init();
	if (next.malloc == malloc_first)
		errno = ENOMEM;
	return next.malloc != malloc_first;
}

static inline bool is_ready(void)
{
	return __builtin_expect(next.malloc != malloc_first, 1) || is_ready_slow();
}

/* A block comes from one of the other functions. Until one was called, there is only NULL. */
static void free_none(void *block)
{
	(void)block;
}

static __attribute__((noinline)) void *malloc_with_event(size_t size)
{
	return rp_inbox_heap_allocated(next.malloc(size), size);
}

static void *malloc_first(size_t size)
{
	return is_ready_slow() ? next.malloc(size) : NULL;
}

INBOX_EXPORT_ALIGNED void *malloc(size_t size)
{
	if (rp_inbox_heap_is_off() || rp_inbox_heap_count(size))
		return next.malloc(size);
	return malloc_with_event(size);
}

INBOX_EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;

	if (!is_ready())
		return NULL;
	if (rp_inbox_heap_is_off())
		return next.calloc(count, size);
	if (__builtin_mul_overflow(count, size, &bytes) || rp_inbox_heap_count(bytes))
		return next.calloc(count, size);
	return rp_inbox_heap_allocated(next.calloc(count, size), bytes);
}

static __attribute__((noinline)) void free_with_event(void *block)
{
	const uint64_t id = rp_inbox_heap_remove(block);

	if (id)
		rp_inbox_heap_freed(block, id);
	next.free(block);
}

/* No test for NULL: it is not a sampled block, and next.free accepts it. */
INBOX_EXPORT_ALIGNED void free(void *block)
{
	if (INBOX_UNLIKELY(inbox_heap_allocated_enabled()) &&
	    INBOX_UNLIKELY(rp_inbox_heap_may_be_sampled(block)))
		free_with_event(block);
	else
		next.free(block);
}

/*
 * A block that realloc(3) moves or resizes ends, and a new one begins. Another thread may get the
 * old address as soon as realloc(3) has freed it, so it leaves the table before. If realloc(3)
 * fails, the old block remains.
 */
static __attribute__((noinline)) void *realloc_with_event(void *block, size_t size)
{
	const uint64_t id = rp_inbox_heap_remove(block);
	void *result = next.realloc(block, size);

	if (!result && size) {
		if (id)
			rp_inbox_heap_restore(block, id);
		return NULL;
	}
	if (id)
		rp_inbox_heap_freed(block, id);
	if (result && !rp_inbox_heap_count(size))
		return rp_inbox_heap_allocated(result, size);
	return result;
}

INBOX_EXPORT void *realloc(void *block, size_t size)
{
	if (!is_ready())
		return NULL;
	if (rp_inbox_heap_is_off())
		return next.realloc(block, size);
	return realloc_with_event(block, size);
}

INBOX_EXPORT int posix_memalign(void **ret_block, size_t alignment, size_t size)
{
	int ret;

	if (!is_ready())
		return ENOMEM;
	ret = next.posix_memalign(ret_block, alignment, size);
	if (ret == 0 && !rp_inbox_heap_is_off() && !rp_inbox_heap_count(size))
		rp_inbox_heap_allocated(*ret_block, size);
	return ret;
}

/* The other functions are rare: they test after the call. */
static void *counted(void *block, size_t size)
{
	if (block && !rp_inbox_heap_is_off() && !rp_inbox_heap_count(size))
		return rp_inbox_heap_allocated(block, size);
	return block;
}

INBOX_EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return is_ready() ? counted(next.aligned_alloc(alignment, size), size) : NULL;
}

INBOX_EXPORT void *memalign(size_t alignment, size_t size)
{
	return is_ready() ? counted(next.memalign(alignment, size), size) : NULL;
}

INBOX_EXPORT void *valloc(size_t size)
{
	return is_ready() ? counted(next.valloc(size), size) : NULL;
}

INBOX_EXPORT void *pvalloc(size_t size)
{
	return is_ready() ? counted(next.pvalloc(size), size) : NULL;
}
