/* SPDX-License-Identifier: MIT */
/* The traces that clients have set, in a dictionary of the server. */
#include "tracing.h"

#include <stdlib.h>
#include <string.h>

static struct redis_dict *traces;	/* from the number of a client to its traceparent */

const char *client_trace_find(uint64_t client)
{
	if (tracing_stats.traced_clients == 0)
		return NULL;
	return redis->DictGetC(traces, &client, sizeof(client), NULL);
}

void client_trace_remove(uint64_t client)
{
	char *trace = NULL;

	if (tracing_stats.traced_clients == 0 ||
	    redis->DictDelC(traces, &client, sizeof(client), &trace) != REDIS_OK)
		return;
	free(trace);
	tracing_stats.traced_clients--;
}

bool client_trace_set(uint64_t client, const char *traceparent, size_t bytes)
{
	struct rp_activity activity;
	uint8_t flags;
	char *trace;

	if (bytes > 0 &&
	    (client == 0 || rp_traceparent_parse(traceparent, bytes, &activity, &flags) < 0))
		return false;
	client_trace_remove(client);
	if (bytes == 0)
		return true;
	if (!traces)
		traces = redis->CreateDict(NULL);
	/* A later version of the format may be longer. Its first bytes have the same meaning. */
	trace = strndup(traceparent, RP_TRACEPARENT_SIZE - 1);
	if (!trace)
		return false;
	memcpy(trace, "00", 2);
	redis->DictSetC(traces, &client, sizeof(client), trace);
	tracing_stats.traced_clients++;
	/* The event of a client's end removes its trace. */
	server_update();
	return true;
}
