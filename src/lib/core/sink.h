/* SPDX-License-Identifier: MIT */
/*
 * The contract between the drain thread and the sinks in src/lib/sink/. A sink is the destination
 * of a session's events.
 *
 * The drain thread makes all calls. For a snapshot, the thread that requested it makes them.
 */
#ifndef RP_CORE_SINK_H
#define RP_CORE_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/session.h>
#include <ringpipe/types.h>

#include "base/file.h"
#include "core/event_def.h"

struct rp_record;
struct rp_sink;

/* One event for a sink. Pointers are valid during the call. */
struct rp_record_view {
	const struct rp_event_def *def;
	uint64_t time_ns;		/* CLOCK_MONOTONIC, not before the previous event */
	uint32_t thread;
	uint32_t processor;
	const struct rp_guid *activity;	/* or NULL */
	const struct rp_guid *related_activity;
	const void *frames;		/* frame_count times 8 bytes */
	uint32_t frame_count;
	uint32_t payload_bytes;
	const void *payload;
	const struct rp_record *record;	/* the complete record in its ring; NULL: not from a ring */
	uint32_t record_bytes;
};

struct rp_event_batch;

struct rp_sink_ops {
	/*
	 * Take a batch of events of one ring, with rp_event_batch_deliver() of core/event_batch.h.
	 */
	int (*batch)(struct rp_sink *sink, struct rp_event_batch *batch);
	/*
	 * Take one event. Return: 0; -EAGAIN: no space now, offer the event again later; -EMSGSIZE:
	 * the format cannot hold the event, which is lost; another error: the sink failed.
	 */
	int (*event)(struct rp_sink *sink, const struct rp_record_view *record);
	/*
	 * Take a sequence point: the sink got all events up to time_ns, and `lost` events were lost
	 * in total. Return: as event().
	 */
	int (*sequence_point)(struct rp_sink *sink, uint64_t time_ns, uint64_t lost);
	/*
	 * Pass on buffered output as far as possible without waiting. Return: 0; -EAGAIN: some
	 * output is left; another error: the sink failed.
	 */
	int (*flush)(struct rp_sink *sink);
	/* Complete the output after the last event. The caller calls it again after -EAGAIN. */
	int (*finish)(struct rp_sink *sink, uint64_t time_ns, uint64_t lost);
	/*
	 * End the session without finish(): leave an output that readers accept, as far as possible
	 * without waiting. `lost` events were lost so far, without the events in the sink. After
	 * the call, `pending` is final, and these events are lost.
	 */
	void (*abandon)(struct rp_sink *sink, uint64_t time_ns, uint64_t lost);
	void (*destroy)(struct rp_sink *sink);
};

struct rp_sink {
	const struct rp_sink_ops *ops;
	uint64_t delivered;		/* events written, or accepted by a reader */
	uint64_t pending;		/* taken, not yet delivered: lost if the sink fails */
	uint64_t shortened;		/* events whose payload was shortened for the format */
	uint64_t bytes;			/* written */
	uint64_t memory_bytes;
	size_t waiting_bytes;		/* limit of waiting output; sessions lower it */
	int fd;				/* closed in a forked child; -1: none */
	struct rp_file_id file;		/* the file of fd: a host may close and reuse numbers */
	uint64_t start_ns;		/* start times in the header of a file that */
	int64_t start_utc_ns;		/* recovery can continue; else 0 */
	bool keep_fd;			/* destroy() leaves fd open */
	bool is_recoverable;		/* a recovery continues the file after the last flush() */
	bool busy;			/* finish() is working itself: deadlines start later */
	bool no_deadline;			/* finish() has no deadline */
	bool pushes;			/* a library thread runs a callback for each event */
};

#endif
