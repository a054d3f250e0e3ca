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

#include "base/event_definition.h"
#include "base/file.h"

struct rp_record;
struct rp_sink;

/* The definition of an event. It exists as long as a session may still deliver such an event. */
struct rp_event_def {
	uint32_t index;			/* unique among existing definitions; small */
	uint32_t id;
	uint64_t serial;		/* never reused, unlike the index */
	const char *provider;
	const char *name;
	const char *message;		/* or NULL */
	const struct rp_field *fields;
	uint64_t keywords;
	uint16_t field_count;
	uint8_t version;
	uint8_t level;
	uint8_t opcode;
	uint8_t flags;
	uint64_t fields_hash;
};

/* Return the definition as plain data, for recovery and sinks. */
static inline struct rp_definition rp_event_def_plain(const struct rp_event_def *def)
{
	return (struct rp_definition){
		.provider = def->provider,
		.name = def->name,
		.id = def->id,
		.version = def->version,
		.level = def->level,
		.opcode = def->opcode,
		.keywords = def->keywords,
		.fields = def->fields,
		.field_count = def->field_count,
	};
}

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
	bool busy;			/* finish() is working itself: deadlines start later */
	bool no_deadline;			/* finish() has no deadline */
	bool pushes;			/* a library thread runs a callback for each event */
};

/*
 * Keep a definition alive after the delivery of its last event, until rp_def_unpin() was called as
 * often. Takes the engine's lock.
 */
void rp_def_pin(const struct rp_event_def *def);
void rp_def_unpin(const struct rp_event_def *def);

/*
 * The definitions of ringpipe's own events: EventsLost, PayloadsCut, Snapshot, Triggered,
 * CoarseTime, ProviderMissing, StacksCut, EventsSkipped. Sinks pass these events on and do not
 * count them.
 */
#define RP_DEF_LOST_INDEX 0u
#define RP_DEF_CUT_INDEX 1u
#define RP_DEF_SNAPSHOT_INDEX 2u
#define RP_DEF_TRIGGERED_INDEX 3u
#define RP_DEF_COARSE_INDEX 4u
#define RP_DEF_MISSING_INDEX 5u
#define RP_DEF_STACKS_INDEX 6u
#define RP_DEF_SKIPPED_INDEX 7u
#define RP_DEF_OWN_COUNT 8u

#endif
