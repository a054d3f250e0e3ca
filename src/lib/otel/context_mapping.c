/* SPDX-License-Identifier: MIT */
#include "otel/context_mapping.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/failure.h"
#include "base/heap.h"
#include "base/shield.h"

#define NAME "OTEL_CTX"
#define VERSION 2u

/* Older headers of libc and the kernel lack these. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

struct header {
	char signature[8];
	uint32_t version, payload_bytes;
	uint64_t published_ns;
	uint64_t payload;
};

static struct header *mapping;
static uint8_t *current;		/* the payload */

static uint64_t boot_time_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether a mapping has one of the names under which readers look for a context. */
static bool has_context(void)
{
	static const char *const names[] = {
		"[anon_shmem:" NAME "]", "[anon:" NAME "]", ("/memfd:" NAME),
	};
	FILE *file = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t space = 0;
	bool found = false;

	while (file && !found && getline(&line, &space, file) > 0) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			const char *at = strstr(line, names[i]);

			found |= at && at > line && at[-1] == ' ';
		}
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

/* Return: a descriptor whose name is the mapping's; -1: memfd_create(2) is refused. */
static int create_file(void)
{
	int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	/* Linux before 6.3 rejects the last flag. */
	return fd >= 0 ? fd : memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

static int map(size_t bytes, struct header **ret_mapping, bool *ret_has_name)
{
	RP_SHIELDED struct rp_shield shield = rp_shield_raise();
	int flags = MAP_PRIVATE, fd = create_file();
	void *at;

	/* Without a size, a reader of the mapping would get SIGBUS. */
	if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
		close(fd);
		fd = -1;
	}
	*ret_has_name = fd >= 0;
	if (fd < 0)
		flags |= MAP_ANONYMOUS;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED)
		return rp_failed("mmap");
	if (madvise(at, bytes, MADV_DONTFORK) != 0) {
		int ret = rp_failed("madvise");

		munmap(at, bytes);
		return ret;
	}
	*ret_mapping = at;
	return 0;
}

/* Readers also learn of a context by this call, even if the kernel cannot name memory. */
static int name_mapping(const void *at, size_t bytes)
{
	return prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, bytes, NAME) ? rp_failed("prctl") : 0;
}

/* Every update has another time, and a reader that sees 0 or two times begins again. */
static void fill(struct header *header, const uint8_t *payload, uint32_t payload_bytes)
{
	const uint64_t before_ns = header->published_ns;
	uint64_t now_ns = boot_time_ns();

	rp_store_relaxed(&header->published_ns, 0);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	memcpy(header->signature, NAME, sizeof(header->signature));
	header->version = VERSION;
	header->payload_bytes = payload_bytes;
	header->payload = (uintptr_t)payload;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	rp_store_relaxed(&header->published_ns, now_ns > before_ns ? now_ns : before_ns + 1);
}

int rp_context_mapping_publish(uint8_t *payload, uint32_t payload_bytes)
{
	const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *before = current;
	struct header *header;
	bool has_name;
	int ret;

	if (mapping) {
		fill(mapping, payload, payload_bytes);
		(void)name_mapping(mapping, bytes);
		current = payload;
		rp_heap_free(before);
		return 0;
	}
	if (has_context())
		return -EEXIST;
	ret = map(bytes, &header, &has_name);
	if (ret)
		return ret;
	fill(header, payload, payload_bytes);
	ret = name_mapping(header, bytes);
	if (ret && !has_name) {
		munmap(header, bytes);
		return ret;
	}
	rp_failed_call = NULL;
	mapping = header;
	current = payload;
	rp_heap_free(before);
	return 0;
}

void rp_context_mapping_forget(void)
{
	mapping = NULL;
}
