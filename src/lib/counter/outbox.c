/* SPDX-License-Identifier: MIT */
#include "counter/outbox.h"

#include <stdlib.h>
#include <string.h>

#include <ringpipe/event.h>

#include "base/array.h"

/* An event in struct rp_outbox. */
struct outbox_entry {
	struct rp_event *event;
	size_t payload_bytes;
};

static void *reserve(struct rp_outbox *out, size_t size)
{
	uint8_t *grown = rp_array_reserve(out->bytes, out->size, &out->space, size, 1);

	if (!grown)
		return NULL;
	out->bytes = grown;
	out->size += size;
	return out->bytes + out->size - size;
}

void rp_outbox_begin(struct rp_outbox *out, struct rp_event *event)
{
	struct outbox_entry entry = { .event = event };
	void *at;

	out->start = (out->size + 7) & ~(size_t)7;
	if (!event) {
		out->start = SIZE_MAX;
		return;
	}
	at = reserve(out, out->start + sizeof(entry) - out->size);
	if (!at) {
		out->start = SIZE_MAX;	/* no memory: the event is left out */
		return;
	}
	memcpy(out->bytes + out->start, &entry, sizeof(entry));
}

void rp_outbox_put(struct rp_outbox *out, const void *bytes, size_t size)
{
	void *at;

	if (out->start == SIZE_MAX)
		return;
	at = reserve(out, size);
	if (!at) {
		out->size = out->start;
		out->start = SIZE_MAX;
		return;
	}
	memcpy(at, bytes, size);
	((struct outbox_entry *)(out->bytes + out->start))->payload_bytes += size;
}

void rp_outbox_text(struct rp_outbox *out, const char *text)
{
	rp_outbox_put(out, text, strlen(text) + 1);
}

void rp_outbox_double(struct rp_outbox *out, double value)
{
	rp_outbox_put(out, &value, sizeof(value));
}

void rp_outbox_u32(struct rp_outbox *out, uint32_t value)
{
	rp_outbox_put(out, &value, sizeof(value));
}

void rp_outbox_write(struct rp_outbox *out)
{
	for (size_t at = 0; at + sizeof(struct outbox_entry) <= out->size;) {
		const struct outbox_entry *entry = (const struct outbox_entry *)(out->bytes + at);
		struct rp_part part = { entry + 1, entry->payload_bytes };

		(void)rp_event_write(entry->event, &part, 1);
		at += (sizeof(*entry) + entry->payload_bytes + 7) & ~(size_t)7;
	}
	free(out->bytes);
}
