/* SPDX-License-Identifier: MIT */
/*
 * An allocator whose functions take nearly the same number of instructions in every heap. glibc's
 * allocator takes some 200 instructions of a request of nginx more or less if earlier allocations
 * differ, and a module allocates memory while it is loaded. callgrind.py preloads this library into
 * both servers that it compares.
 *
 * The size of a block is a power of two, and its header precedes the memory of the caller. A freed
 * block goes into the list of its size. No memory is returned to the kernel.
 */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SIZES 48
#define REGION ((size_t)1 << 26)

/* The header of a block. `start` is the next block of the list while the block is free. */
struct block {
	struct block *start;	/* precedes the header if the caller wanted an alignment */
	uint32_t size_log2;
	uint32_t offset;	/* of the caller's memory from `start` */
};

static struct block *freed[SIZES];
static char *region, *region_end;
static int lock;

static void acquire(void)
{
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		;
}

static void release(void)
{
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

static struct block *take_new(size_t bytes)
{
	struct block *block;

	if ((size_t)(region_end - region) < bytes) {
		size_t mapped = bytes > REGION ? bytes : REGION;
		void *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (map == MAP_FAILED)
			return NULL;
		region = map;
		region_end = region + mapped;
	}
	block = (struct block *)region;
	region += bytes;
	return block;
}

static void *allocate(size_t alignment, size_t bytes)
{
	size_t more = sizeof(struct block) + (alignment > 16 ? alignment : 0);
	struct block *block, *header;
	uint32_t size_log2;
	uintptr_t memory;

	if (bytes > SIZE_MAX / 4 || alignment > SIZE_MAX / 4) {
		errno = ENOMEM;
		return NULL;
	}
	size_log2 = 64 - (uint32_t)__builtin_clzll((bytes + more - 1) | 31);
	acquire();
	block = size_log2 < SIZES ? freed[size_log2] : NULL;
	if (block)
		freed[size_log2] = block->start;
	else
		block = size_log2 < SIZES ? take_new((size_t)1 << size_log2) : NULL;
	release();
	if (!block) {
		errno = ENOMEM;
		return NULL;
	}
	memory = (uintptr_t)(block + 1);
	if (alignment > 16)
		memory = (memory + alignment - 1) & ~(alignment - 1);
	header = (struct block *)memory - 1;
	header->start = block;
	header->size_log2 = size_log2;
	header->offset = (uint32_t)(memory - (uintptr_t)block);
	return (void *)memory;
}

void *malloc(size_t bytes)
{
	return allocate(16, bytes);
}

void free(void *memory)
{
	struct block *header = (struct block *)memory - 1, *block;
	uint32_t size_log2;

	if (!memory)
		return;
	block = header->start;
	size_log2 = header->size_log2;
	acquire();
	block->start = freed[size_log2];
	freed[size_log2] = block;
	release();
}

size_t malloc_usable_size(void *memory)
{
	const struct block *header = (const struct block *)memory - 1;

	return memory ? ((size_t)1 << header->size_log2) - header->offset : 0;
}

void *calloc(size_t count, size_t bytes)
{
	size_t total;
	void *memory;

	if (__builtin_mul_overflow(count, bytes, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	memory = malloc(total);
	return memory ? memset(memory, 0, total) : NULL;
}

void *realloc(void *memory, size_t bytes)
{
	size_t old = malloc_usable_size(memory);
	void *moved;

	if (memory && old >= bytes)
		return memory;
	moved = malloc(bytes);
	if (moved && memory) {
		memcpy(moved, memory, old);
		free(memory);
	}
	return moved;
}

int posix_memalign(void **ret_memory, size_t alignment, size_t bytes)
{
	void *memory = allocate(alignment, bytes);

	if (!memory)
		return ENOMEM;
	*ret_memory = memory;
	return 0;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return allocate(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
	return allocate(alignment, bytes);
}
