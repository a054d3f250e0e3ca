/* SPDX-License-Identifier: MIT */
/*
 * RANGES. Memory that rseq sections write to must not be unmapped when the last section has been
 * aborted. A page fault may have interrupted that section, and its thread may still wait in the
 * kernel. It will not resume the section, but if the kernel finds no mapping for the page, it ends
 * the process by SIGSEGV first. So the address range gets empty private memory, which needs no page
 * until it is touched, and the next mapping of the same size replaces that memory. The drain thread
 * unmaps ranges for which no thread can wait any more.
 */
#include "base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/shield.h"

/* Linux before 5.18 lacks it. */
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

#define RANGE_NS 10000000000u	/* a page fault takes less */

/* An address range with empty private memory. */
struct free_range {
	char *at;
	size_t bytes;
	uint64_t since_ns;
};

static struct {
	pthread_mutex_t lock;
	struct free_range *rows;	/* in the order of `since_ns` */
	size_t count, capacity;
} ranges = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void remove_range(size_t index)
{
	rp_store_relaxed(&ranges.count, ranges.count - 1);
	memmove(&ranges.rows[index], &ranges.rows[index + 1],
		(ranges.count - index) * sizeof(*ranges.rows));
}

/* Return: a range, which may be mapped only by MAP_FIXED; NULL: there is none of this size. */
static char *take_range(size_t bytes)
{
	char *at = NULL;

	pthread_mutex_lock(&ranges.lock);
	for (size_t i = ranges.count; i > 0 && !at; i--) {
		if (ranges.rows[i - 1].bytes == bytes) {
			at = ranges.rows[i - 1].at;
			remove_range(i - 1);
		}
	}
	pthread_mutex_unlock(&ranges.lock);
	return at;
}

/* Free the memory at an address, and keep the address range. */
static void leave_range(void *at, size_t bytes)
{
	struct free_range range = { at, bytes, rp_clock_monotonic_ns() }, *grown;

	if (mmap(at, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
		munmap(at, bytes);
		return;
	}
	/* After mlockall(MCL_FUTURE), the mapping has pages. */
	(void)madvise(at, bytes, MADV_DONTNEED_LOCKED);
	pthread_mutex_lock(&ranges.lock);
	grown = rp_array_reserve(ranges.rows, ranges.count, &ranges.capacity, 1, sizeof(range));
	/* Without memory for a row, the range remains mapped for ever. */
	if (grown) {
		ranges.rows = grown;
		ranges.rows[ranges.count] = range;
		rp_store_relaxed(&ranges.count, ranges.count + 1);
	}
	pthread_mutex_unlock(&ranges.lock);
}

/* Unmap the ranges that became free until then. Return: whether there were any. */
static bool unmap_ranges(uint64_t until_ns)
{
	bool any = false;

	pthread_mutex_lock(&ranges.lock);
	while (ranges.count > 0 && ranges.rows[0].since_ns <= until_ns) {
		munmap(ranges.rows[0].at, ranges.rows[0].bytes);
		remove_range(0);
		any = true;
	}
	pthread_mutex_unlock(&ranges.lock);
	return any;
}

uint64_t rp_memory_reap(uint64_t now_ns)
{
	if (rp_load_relaxed(&ranges.count) == 0)
		return 0;
	if (now_ns > RANGE_NS)
		(void)unmap_ranges(now_ns - RANGE_NS);
	return rp_load_relaxed(&ranges.count) ? RANGE_NS : 0;
}

/* Map anonymous memory, at a free range if there is one. Return: MAP_FAILED with errno. */
static void *map_at_range(size_t bytes, int protection, int flags)
{
	char *at = take_range(bytes);
	void *memory;

	if (at) {
		memory = mmap(at, bytes, protection | PROT_READ | PROT_WRITE,
			      flags | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		if (memory != MAP_FAILED)
			return memory;
		leave_range(at, bytes);
	}
	do
		memory = mmap(NULL, bytes, protection, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			      0);
	while (memory == MAP_FAILED && errno == ENOMEM && unmap_ranges(UINT64_MAX));
	return memory;
}

void rp_memory_fork_prepare(void)
{
	pthread_mutex_lock(&ranges.lock);
}

void rp_memory_fork_done(void)
{
	pthread_mutex_unlock(&ranges.lock);
}

/* mremap(2) with length 0 maps shared pages again: no descriptor, no RLIMIT_FSIZE, no SIGXFSZ. */
static int map_twice(char *at, size_t size)
{
	if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	    MAP_FAILED)
		return rp_failed("mmap");
	if (mremap(at, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, at + size) == MAP_FAILED)
		return rp_failed("mremap");
	return 0;
}

/* For valgrind and user-space kernels, which lack that use of mremap(2). */
static int map_twice_by_memfd(char *at, size_t size)
{
	RP_SHIELDED struct rp_shield shield = rp_shield_raise();
	const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
	int fd, ret = 0;

	fd = memfd_create("ringpipe", MFD_CLOEXEC);
	if (fd < 0)
		return rp_failed("memfd_create");
	if (ftruncate(fd, (off_t)size) != 0)
		ret = rp_failed("ftruncate");
	else if (mmap(at, size, protection, flags, fd, 0) == MAP_FAILED ||
		 mmap(at + size, size, protection, flags, fd, 0) == MAP_FAILED)
		ret = rp_failed("mmap");
	close(fd);
	return ret;
}

/* Map the header and the data from a file that is long enough for both. */
static int map_file(char *at, size_t header_bytes, size_t size, int fd)
{
	const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;

	if (mmap(at, header_bytes + size, protection, flags, fd, 0) == MAP_FAILED ||
	    mmap(at + header_bytes + size, size, protection, flags, fd, (off_t)header_bytes) ==
	    MAP_FAILED)
		return rp_failed("mmap");
	return 0;
}

static int map_anonymous(char *at, size_t header_bytes, size_t size)
{
	int ret;

	if (mprotect(at, header_bytes, PROT_READ | PROT_WRITE) != 0)
		return rp_failed("mprotect");
	ret = map_twice(at + header_bytes, size);
	if (ret != 0 && ret != -ENOMEM)
		ret = map_twice_by_memfd(at + header_bytes, size);
	return ret;
}

int rp_memory_map_ring(int fd, size_t header_bytes, size_t size, void **ret_memory)
{
	size_t whole = header_bytes + 2 * size;
	char *memory = map_at_range(whole, PROT_NONE, MAP_PRIVATE);
	int ret;

	if (memory == MAP_FAILED)
		return rp_failed("mmap");
	ret = fd < 0 ? map_anonymous(memory, header_bytes, size) :
	      map_file(memory, header_bytes, size, fd);
	if (ret == 0 && madvise(memory, whole, MADV_DONTFORK) != 0)
		ret = rp_failed("madvise");
	if (ret != 0) {
		leave_range(memory, whole);
		return ret;
	}
	*ret_memory = memory;
	return 0;
}

void rp_memory_unmap_ring(void *memory, size_t header_bytes, size_t size)
{
	if (memory)
		leave_range(memory, header_bytes + 2 * size);
}

int rp_memory_map_once(size_t size, void **ret_memory)
{
	void *memory = map_at_range(size, PROT_READ | PROT_WRITE, MAP_SHARED);

	if (memory == MAP_FAILED)
		return rp_failed("mmap");
	/* A writer that touches a huge page first would wait until all of it is zeroed. */
	(void)madvise(memory, size, MADV_NOHUGEPAGE);
	if (madvise(memory, size, MADV_DONTFORK) != 0) {
		int ret = rp_failed("madvise");

		leave_range(memory, size);
		return ret;
	}
	*ret_memory = memory;
	return 0;
}

void rp_memory_unmap(void *memory, size_t size)
{
	/* Free the pages: replacing a part of a shared mapping would keep them. */
	(void)madvise(memory, size, MADV_REMOVE);
	leave_range(memory, size);
}

int rp_memory_map_wiped(size_t size, void **ret_memory)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return rp_failed("mmap");
	/* Kernels before 4.14 have no such advice. The fork handlers then reset what they can. */
	(void)madvise(memory, size, MADV_WIPEONFORK);
	*ret_memory = memory;
	return 0;
}

void *rp_memory_grow(void *items, size_t *count, size_t index, size_t item_bytes)
{
	size_t space = *count ? *count : 64;
	char *grown;

	while (space <= index)
		space *= 2;
	grown = realloc(items, space * item_bytes);
	if (!grown)
		return NULL;
	memset(grown + *count * item_bytes, 0, (space - *count) * item_bytes);
	*count = space;
	return grown;
}
