/* SPDX-License-Identifier: MIT */
#include "nettrace/delivery.h"

#include <stdlib.h>

int rp_delivery_reserve(struct rp_delivery *delivery)
{
	size_t count = delivery->last - delivery->first;
	struct rp_delivery_block *blocks;
	size_t capacity;

	if (delivery->last < delivery->capacity)
		return 0;
	if (count <= delivery->capacity / 2 && count > 0) {
		memmove(delivery->blocks, delivery->blocks + delivery->first,
			count * sizeof(*blocks));
	} else {
		capacity = delivery->capacity ? delivery->capacity * 2 : 16;
		blocks = malloc(capacity * sizeof(*blocks));
		if (!blocks)
			return -ENOMEM;
		if (count)
			memcpy(blocks, delivery->blocks + delivery->first, count * sizeof(*blocks));
		free(delivery->blocks);
		delivery->blocks = blocks;
		delivery->capacity = capacity;
	}
	delivery->first = 0;
	delivery->last = count;
	return 0;
}

void rp_delivery_add(struct rp_delivery *delivery, const struct rp_delivery_block *block)
{
	delivery->blocks[delivery->last++] = *block;
}

/* Parse the events that begin before offset `to`, up to which the block was taken. */
static void parse(struct rp_delivery *delivery, const struct rp_delivery_block *block,
		  const uint8_t *output, uint64_t to,
		  bool (*counts)(const void *data, uint32_t metadata_id), const void *data)
{
	const struct rp_wire_layout layout = {
		.compressed = true,
		.has_labels = delivery->has_labels,
	};

	if (!delivery->is_parsing) {
		memset(&delivery->event, 0, sizeof(delivery->event));
		delivery->is_parsing = true;
		delivery->counts = false;
		delivery->event_end = block->begin;
	}
	while (delivery->event_end <= to) {
		struct rp_cursor events = {
			.at = output + (delivery->event_end - delivery->taken),
			.end = output + (block->end - delivery->taken),
		};
		struct rp_cursor payload;

		delivery->events += delivery->counts;
		delivery->parsed += delivery->counts;
		/* The encoder of this library wrote the events, so they are valid. */
		if (rp_wire_event_take(&events, &layout, &delivery->event, &payload) < 0)
			break;
		delivery->event_end = delivery->taken + (uint64_t)(events.at - output);
		delivery->counts = counts(data, delivery->event.metadata_id);
	}
}

void rp_delivery_take(struct rp_delivery *delivery, const uint8_t *output, size_t size,
		      bool (*counts)(const void *data, uint32_t metadata_id), const void *data)
{
	uint64_t to = delivery->taken + size;

	while (delivery->first < delivery->last) {
		const struct rp_delivery_block *block = &delivery->blocks[delivery->first];

		if (block->end > to) {
			if (block->begin < to)
				parse(delivery, block, output, to, counts, data);
			break;
		}
		delivery->events += block->counted - delivery->parsed;
		delivery->parsed = 0;
		delivery->is_parsing = false;
		delivery->first++;
	}
	if (delivery->first == delivery->last)
		delivery->first = delivery->last = 0;
	delivery->taken = to;
}

void rp_delivery_reset(struct rp_delivery *delivery, uint64_t offset)
{
	delivery->first = delivery->last = 0;
	delivery->is_parsing = false;
	delivery->parsed = 0;
	delivery->taken = offset;
}

void rp_delivery_fini(struct rp_delivery *delivery)
{
	free(delivery->blocks);
}
