/* SPDX-License-Identifier: MIT */
/*
 * The traces that clients have set: a hash table with linear probing. The server numbers clients
 * one after another, so the low bits of the number are the hash.
 */
#include "tracing.h"

#include <stdlib.h>
#include <string.h>

struct client_trace {
	uint64_t client;		/* 0: free */
	char traceparent[RP_TRACEPARENT_SIZE];
};

static struct client_trace *table;
static size_t slots;			/* a power of 2, or 0 */

static size_t slot_of(uint64_t client)
{
	size_t slot = (size_t)client & (slots - 1);

	while (table[slot].client && table[slot].client != client)
		slot = (slot + 1) & (slots - 1);
	return slot;
}

static bool grow(void)
{
	struct client_trace *old = table, *grown;
	size_t old_slots = slots;

	slots = slots ? 2 * slots : 64;
	grown = calloc(slots, sizeof(*grown));
	if (!grown) {
		slots = old_slots;
		return false;
	}
	table = grown;
	for (size_t i = 0; i < old_slots; i++)
		if (old[i].client)
			table[slot_of(old[i].client)] = old[i];
	free(old);
	return true;
}

const char *client_trace_find(uint64_t client)
{
	size_t slot;

	if (tracing_stats.traced_clients == 0)
		return NULL;
	slot = slot_of(client);
	return table[slot].client ? table[slot].traceparent : NULL;
}

void client_trace_remove(uint64_t client)
{
	size_t slot;

	if (tracing_stats.traced_clients == 0)
		return;
	slot = slot_of(client);
	if (table[slot].client == 0)
		return;
	table[slot].client = 0;
	tracing_stats.traced_clients--;
	/* Entries after the free slot may have been put there because it was in use. */
	for (slot = (slot + 1) & (slots - 1); table[slot].client; slot = (slot + 1) & (slots - 1)) {
		struct client_trace moved = table[slot];

		table[slot].client = 0;
		table[slot_of(moved.client)] = moved;
	}
}

bool client_trace_set(uint64_t client, const char *traceparent, size_t bytes)
{
	struct rp_activity activity;
	size_t slot;
	uint8_t flags;

	if (bytes == 0) {
		client_trace_remove(client);
		return true;
	}
	if (client == 0 || rp_traceparent_parse(traceparent, bytes, &activity, &flags) < 0)
		return false;
	if (2 * tracing_stats.traced_clients >= slots && !grow())
		return false;
	slot = slot_of(client);
	if (table[slot].client == 0)
		tracing_stats.traced_clients++;
	table[slot].client = client;
	/* A later version of the format may be longer. Its first bytes have the same meaning. */
	bytes = RP_TRACEPARENT_SIZE - 1;
	memcpy(table[slot].traceparent, traceparent, bytes);
	memcpy(table[slot].traceparent, "00", 2);
	table[slot].traceparent[bytes] = 0;
	/* The event of a client's end removes its trace. */
	server_update();
	return true;
}
