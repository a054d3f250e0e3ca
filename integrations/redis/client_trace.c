/* SPDX-License-Identifier: MIT */
/*
 * The traces that clients have set. The server counts its clients, so their numbers spread over the
 * buckets. The kernel gives memory only to those that were used.
 */
#include "tracing.h"

#include <stdlib.h>

#define BUCKETS 65536u

struct client_trace {
	struct client_trace *next;	/* of the same bucket */
	uint64_t client;
	struct rp_activity activity;
};

static struct client_trace *buckets[BUCKETS];

/* Return the pointer to the client's trace, or the NULL at the end of its bucket. */
static struct client_trace **place_of(uint64_t client)
{
	struct client_trace **place = &buckets[client % BUCKETS];

	while (*place && (*place)->client != client)
		place = &(*place)->next;
	return place;
}

const struct rp_activity *client_trace_find(uint64_t client)
{
	const struct client_trace *trace = tracing_stats.traced_clients ? *place_of(client) : NULL;

	return trace ? &trace->activity : NULL;
}

void client_trace_remove(uint64_t client)
{
	struct client_trace **place = place_of(client), *trace = *place;

	if (!trace)
		return;
	*place = trace->next;
	free(trace);
	tracing_stats.traced_clients--;
}

void client_trace_remove_all(void)
{
	for (size_t i = 0; i < BUCKETS; i++)
		while (buckets[i])
			client_trace_remove(buckets[i]->client);
}

bool client_trace_set(uint64_t client, const char *traceparent, size_t bytes)
{
	struct rp_activity activity;
	struct client_trace *trace;
	uint8_t flags;

	if (bytes > 0 &&
	    (client == 0 || rp_traceparent_parse(traceparent, bytes, &activity, &flags) < 0))
		return false;
	client_trace_remove(client);
	trace = bytes > 0 ? calloc(1, sizeof(*trace)) : NULL;
	if (!trace)
		return bytes == 0;
	*trace = (struct client_trace){ .client = client, .activity = activity };
	*place_of(client) = trace;
	tracing_stats.traced_clients++;
	/* The event of a client's end removes its trace. */
	server_update();
	return true;
}
