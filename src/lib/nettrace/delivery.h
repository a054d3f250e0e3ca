/* SPDX-License-Identifier: MIT */
/*
 * Counts the events that are complete in the part of a stream's output that was taken.
 *
 * Most blocks are taken whole, and the count of their events is known. If only a part of a block is
 * taken, the functions parse the events in that part, each event once. One thread at a time may
 * call them.
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
	uint64_t counted;	/* events of definitions that count */
};

struct rp_delivery {
	struct rp_delivery_block *blocks;	/* not taken whole yet, oldest first */
	size_t first, last, capacity;
	uint64_t taken;		/* offset in the stream */
	uint64_t events;	/* complete events that count, in the bytes taken */
	bool has_labels;	/* the stream is V6 */
	/* Only while a part of the first block was taken: */
	bool is_parsing;
	bool counts;		/* whether the event that ends at `event_end` counts */
	uint64_t event_end;	/* of the last event that was parsed; after `taken` */
	uint64_t parsed;	/* of `events`, those in this block */
	struct rp_wire_event event;
};

/* Makes space for one more block. Return: 0; -ENOMEM. */
int rp_delivery_reserve(struct rp_delivery *delivery);

/* Append a block. The caller has reserved its space. */
void rp_delivery_add(struct rp_delivery *delivery, const struct rp_delivery_block *block);

/*
 * Take `size` bytes of `output`, which begins at offset `taken` and ends at the end of a block.
 * `counts` returns whether events of a metadata id count.
 */
void rp_delivery_take(struct rp_delivery *delivery, const uint8_t *output, size_t size,
		      bool (*counts)(const void *data, uint32_t metadata_id), const void *data);

/* Forget all blocks: the output starts again at `offset`. */
void rp_delivery_reset(struct rp_delivery *delivery, uint64_t offset);

void rp_delivery_fini(struct rp_delivery *delivery);

#endif
