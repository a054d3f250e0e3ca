/* SPDX-License-Identifier: MIT */
/*
 * How many events are whole in what was taken of a stream's output.
 *
 * Most blocks are taken whole, and their events are counted without a look at them. The events of a
 * block that was taken in part are parsed, each once, as far as bytes were taken. One thread.
 */
#ifndef RP_NETTRACE_DELIVERY_H
#define RP_NETTRACE_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nettrace/event_header.h"

/* The events of an event block, by offsets in the stream. */
struct rp_delivery_block {
	uint64_t begin;		/* of the first event's header */
	uint64_t end;		/* of the last event's payload */
	uint64_t counted;	/* events whose types count */
};

struct rp_delivery {
	struct rp_delivery_block *blocks;	/* not taken whole yet, oldest first */
	size_t first, last, capacity;
	uint64_t taken;		/* offset in the stream */
	uint64_t events;	/* counted ones in what was taken */
	bool has_labels;	/* the stream is V6 */
	/* In the first block, when part of it was taken. */
	bool is_parsing;
	bool counts;		/* the event that `event_end` ends */
	uint64_t event_end;	/* of the last event that was parsed; after `taken` */
	uint64_t parsed;	/* of `events`, those in this block */
	struct rp_wire_event event;
};

/* Makes space for one more block. Return: 0; -ENOMEM. */
int rp_delivery_reserve(struct rp_delivery *delivery);

/* Appends a block to the output. Space for it is reserved. */
void rp_delivery_add(struct rp_delivery *delivery, const struct rp_delivery_block *block);

/*
 * Takes `size` bytes of `output`, which begins at offset `taken` and holds every block whole.
 * `counts` says whether events of a metadata id count.
 */
void rp_delivery_take(struct rp_delivery *delivery, const uint8_t *output, size_t size,
		      bool (*counts)(const void *data, uint32_t metadata_id), const void *data);

/* Forgets all blocks: the output begins anew at `offset`. */
void rp_delivery_reset(struct rp_delivery *delivery, uint64_t offset);

void rp_delivery_fini(struct rp_delivery *delivery);

#endif
