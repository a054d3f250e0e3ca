/* SPDX-License-Identifier: MIT */
/* A sink that accepts no events: such a session keeps its events in the rings, for snapshots. */
#include <errno.h>
#include <stdlib.h>

#include "core/event_batch.h"
#include "sink/sinks.h"

static int none_event(struct rp_sink *sink, const struct rp_record_view *record)
{
	(void)sink;
	(void)record;
	return 0;
}

static int none_batch(struct rp_sink *sink, struct rp_event_batch *batch)
{
	return rp_event_batch_deliver(batch, sink, none_event, NULL, NULL);
}

static int none_point(struct rp_sink *sink, uint64_t time_ns, uint64_t lost)
{
	(void)sink;
	(void)time_ns;
	(void)lost;
	return 0;
}

static int none_flush(struct rp_sink *sink)
{
	(void)sink;
	return 0;
}

static void none_abandon(struct rp_sink *sink, uint64_t time_ns, uint64_t lost)
{
	(void)none_point(sink, time_ns, lost);
}

static void none_destroy(struct rp_sink *sink)
{
	free(sink);
}

static const struct rp_sink_ops none_ops = {
	.batch = none_batch,
	.event = none_event,
	.sequence_point = none_point,
	.flush = none_flush,
	.finish = none_point,
	.abandon = none_abandon,
	.destroy = none_destroy,
};

int rp_sink_none_create(struct rp_sink **ret_sink)
{
	struct rp_sink *sink = calloc(1, sizeof(*sink));

	if (!sink)
		return -ENOMEM;
	sink->ops = &none_ops;
	sink->fd = -1;
	*ret_sink = sink;
	return 0;
}
