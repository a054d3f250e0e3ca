/* SPDX-License-Identifier: MIT */
/*
 * Symbols of addresses, read on a thread of its own, bounded in time and memory. Works on what is
 * in the table of mappings, which it holds.
 */
#ifndef RP_HOST_RESOLVE_H
#define RP_HOST_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addresses.h"

struct rp_resolve;

struct rp_resolve_result {
	uint32_t time_ms;
	uint32_t symbols;
	uint32_t named;			/* addresses */
	uint64_t bytes;
	const char *note;		/* why not all; "" */
};

/*
 * `addresses` are copied. Each belongs to the last mapping that holds it and may have been there
 * when it came. 0, -ENOMEM, or why there is no thread.
 */
int rp_resolve_start(const struct rp_address *addresses, size_t count,
		     struct rp_resolve **ret_resolve);

/* Whether it still works; false in the end, even where a file system hangs. */
bool rp_resolve_is_busy(const struct rp_resolve *resolve);

/*
 * Once it is not busy. -ETIMEDOUT: its thread hangs and was left to itself, with `resolve`, which
 * is no longer the caller's. The note lives as long as `resolve`.
 */
int rp_resolve_end(struct rp_resolve *resolve, struct rp_resolve_result *ret_result);

/*
 * The payload of the ProcessSymbol at an offset, which is 0 for the first; NULL after the last.
 */
const void *rp_resolve_symbol(const struct rp_resolve *resolve, size_t offset, size_t *ret_size);
size_t rp_resolve_after(const struct rp_resolve *resolve, size_t offset);

/* Takes NULL. Does not wait for a thread that hangs. */
void rp_resolve_destroy(struct rp_resolve *resolve);

#endif
