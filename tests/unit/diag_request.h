/* SPDX-License-Identifier: MIT */
/* Requests for the tests of src/diag/, and memory that tells when one is read beyond its end. */
#ifndef DIAG_REQUEST_H
#define DIAG_REQUEST_H

#include <criterion/criterion.h>

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/message.h"

/* A request is built by the writer of replies: the framing is the same but for set and id. */
static inline struct rp_reply begin(uint8_t set, uint8_t id)
{
	struct rp_reply request = { 0 };

	rp_reply_begin(&request);
	request.bytes[16] = set;
	request.bytes[17] = id;
	return request;
}

/* The bytes in memory that ends where they end: reading one more is a fault. */
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
