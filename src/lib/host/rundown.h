/* SPDX-License-Identifier: MIT */
/*
 * The events of provider Universal.System in a stream with stacks: the process, its mappings, and
 * at the end the functions in the stacks.
 *
 * This folder encodes the records. The sink writes them one by one, whenever it has space.
 */
#ifndef RP_HOST_RUNDOWN_H
#define RP_HOST_RUNDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addresses.h"

struct rp_rundown;

/* Ids of the events. */
enum rp_rundown_id {
	RP_RUNDOWN_PROCESS = 0,
	RP_RUNDOWN_MAPPING = 3,
	RP_RUNDOWN_SYMBOL = 4,
	RP_RUNDOWN_METADATA = 5,
};

struct rp_rundown_record {
	enum rp_rundown_id id;
	uint32_t payload_bytes;
	const void *payload;
};

struct rp_rundown_result {
	uint32_t time_ms;		/* time for reading the symbols */
	uint32_t symbols;
	uint32_t addresses;		/* distinct addresses in the stacks */
	uint32_t left_out;		/* addresses without a symbol */
	uint64_t bytes;			/* memory for the symbols */
	const char *note;		/* why some were left out, or "" */
};

/* Create a rundown. Return: 0 or -ENOMEM. */
int rp_rundown_create(struct rp_rundown **ret_rundown);

/* Free the rundown, which may be NULL. Does not wait for a thread that still reads symbols. */
void rp_rundown_destroy(struct rp_rundown *rundown);

/* Add objects loaded since the last call. Call before writing events from their code. */
void rp_rundown_look(struct rp_rundown *rundown);

/*
 * Get the next record to write, the same one until rp_rundown_reported() is called. Return: false
 * if there is none now. The payload is valid until the next call.
 */
bool rp_rundown_next(struct rp_rundown *rundown, struct rp_rundown_record *ret_record);
void rp_rundown_reported(struct rp_rundown *rundown);

/*
 * Start a thread that reads the symbols of `count` distinct addresses; `more` others were left out
 * before. Once rp_rundown_is_busy() returns false, which takes a few seconds at most, the symbols
 * are further records to write. Return: 0; -ENOMEM; -errno of thread creation.
 */
int rp_rundown_start(struct rp_rundown *rundown, const struct rp_address *addresses, size_t count,
		     uint64_t more);
bool rp_rundown_is_busy(struct rp_rundown *rundown);
void rp_rundown_result(const struct rp_rundown *rundown, struct rp_rundown_result *ret_result);

#endif
