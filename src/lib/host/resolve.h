/* SPDX-License-Identifier: MIT */
/*
 * Looks up the symbols of addresses on a separate thread, with limits on time and memory. The
 * thread holds the table of mappings and reads the symbols of the mapped files.
 */
#ifndef RP_HOST_RESOLVE_H
#define RP_HOST_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addresses.h"
#include "host/rundown.h"

struct rp_resolve;

struct rp_resolve_result {
	uint32_t time_ms;
	uint32_t symbols;
	uint32_t named;			/* number of addresses with a symbol */
	uint64_t bytes;
	const char *note;		/* why some have none; or "" */
};

/*
 * Start a thread for a copy of `addresses`. Each address belongs to the last mapping that contains
 * it and may have existed when the address was recorded. Return: 0; -ENOMEM; -errno of thread
 * creation.
 */
int rp_resolve_start(const struct rp_address *addresses, size_t count,
		     struct rp_resolve **ret_resolve);

/* Return: whether the thread still works. This becomes false even if a file system hangs. */
bool rp_resolve_is_busy(const struct rp_resolve *resolve);

/*
 * Get the result once rp_resolve_is_busy() returns false. The note lives as long as `resolve`.
 * Return: 0; -ETIMEDOUT: the thread hangs, and owns `resolve` from now on.
 */
int rp_resolve_end(struct rp_resolve *resolve, struct rp_resolve_result *ret_result);

/*
 * Get the payload of the record at an offset: 0 for the first. A record is a ProcessSymbol, or the
 * ProcessMapping of the symbols that follow. Return: NULL after the last.
 */
const void *rp_resolve_record(const struct rp_resolve *resolve, size_t offset,
			      enum rp_rundown_id *ret_id, size_t *ret_size);
size_t rp_resolve_after(const struct rp_resolve *resolve, size_t offset);

/* Free `resolve`, which may be NULL. Does not wait for a thread that hangs. */
void rp_resolve_destroy(struct rp_resolve *resolve);

#endif
