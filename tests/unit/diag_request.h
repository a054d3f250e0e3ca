/* SPDX-License-Identifier: MIT */
/* Requests for the tests of diag/, in memory that faults at a read beyond the request's end. */
#ifndef DIAG_REQUEST_H
#define DIAG_REQUEST_H

#include <criterion/criterion.h>

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ipc/message.h"

static inline struct rp_message_buffer begin(uint8_t set, uint8_t id)
{
	struct rp_message_buffer request = { 0 };

	rp_message_begin(&request, set, id);
	return request;
}

/* Bytes at the end of accessible memory: a read beyond them faults. */
struct fenced {
	uint8_t *map;
	size_t map_bytes;
	uint8_t *bytes;
	size_t size;
};

static inline struct fenced fence(const uint8_t *bytes, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size + page - 1) / page * page;
	struct fenced fenced = { .map_bytes = whole + page, .size = size };

	fenced.map = mmap(NULL, fenced.map_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(fenced.map != MAP_FAILED);
	cr_assert_eq(mprotect(fenced.map + whole, page, PROT_NONE), 0);
	fenced.bytes = fenced.map + whole - size;
	memcpy(fenced.bytes, bytes, size);
	return fenced;
}

static inline void unfence(struct fenced *fenced)
{
	munmap(fenced->map, fenced->map_bytes);
}

#endif
