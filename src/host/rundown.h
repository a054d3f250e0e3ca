/* SPDX-License-Identifier: MIT */
/*
 * What a stream with stacks tells of the process, as events of provider Universal.System: who it
 * is, what is mapped where, and at the end which functions the stacks went through.
 *
 * Records are laid out here and written by the sink, one by one, whenever it has room.
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
	uint32_t time_ms;		/* that reading symbols took */
	uint32_t symbols;
	uint32_t addresses;		/* distinct ones in the stacks */
	uint32_t left_out;		/* addresses without a name */
	uint64_t bytes;			/* of memory for the symbols */
	const char *note;		/* why some were left out, or "" */
};

/* -ENOMEM. */
int rp_rundown_create(struct rp_rundown **ret_rundown);

/* Takes NULL. Symbols that are still being read are left to themselves. */
void rp_rundown_destroy(struct rp_rundown *rundown);

/* Looks what was loaded since. Before the events that may have been written from there. */
void rp_rundown_look(struct rp_rundown *rundown);

/*
 * The next record to write, the same one until rp_rundown_told() is called. False: none for now.
 * The payload is valid until the next call.
 */
bool rp_rundown_next(struct rp_rundown *rundown, struct rp_rundown_record *ret_record);
void rp_rundown_told(struct rp_rundown *rundown);

/*
 * Begins to read the symbols of `count` distinct addresses on a thread of its own; `more` others
 * were left out before. They are records to write once rp_rundown_is_busy() has said that it is
 * over, which it does after some seconds, come what may. 0, -ENOMEM or what made no thread.
 */
int rp_rundown_start(struct rp_rundown *rundown, const struct rp_address *addresses, size_t count,
		     uint64_t more);
bool rp_rundown_is_busy(struct rp_rundown *rundown);
void rp_rundown_result(const struct rp_rundown *rundown, struct rp_rundown_result *ret_result);

#endif
