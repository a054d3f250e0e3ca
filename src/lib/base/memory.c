/* SPDX-License-Identifier: MIT */
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/shield.h"

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
	char *memory = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			    0);
	int ret;

	if (memory == MAP_FAILED)
		return rp_failed("mmap");
	ret = fd < 0 ? map_anonymous(memory, header_bytes, size) :
	      map_file(memory, header_bytes, size, fd);
	if (ret == 0 && madvise(memory, whole, MADV_DONTFORK) != 0)
		ret = rp_failed("madvise");
	if (ret != 0) {
		munmap(memory, whole);
		return ret;
	}
	*ret_memory = memory;
	return 0;
}

void rp_memory_unmap_ring(void *memory, size_t header_bytes, size_t size)
{
	if (memory)
		munmap(memory, header_bytes + 2 * size);
}

int rp_memory_map_once(size_t size, void **ret_memory)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return rp_failed("mmap");
	/* A writer that touches a huge page first would wait until all of it is zeroed. */
	(void)madvise(memory, size, MADV_NOHUGEPAGE);
	if (madvise(memory, size, MADV_DONTFORK) != 0) {
		int ret = rp_failed("madvise");

		munmap(memory, size);
		return ret;
	}
	*ret_memory = memory;
	return 0;
}

void rp_memory_unmap(void *memory, size_t size)
{
	/* Free the pages: unmapping a part of a shared mapping would keep them. */
	(void)madvise(memory, size, MADV_REMOVE);
	munmap(memory, size);
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
