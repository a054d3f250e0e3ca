/* SPDX-License-Identifier: MIT */
/*
 * Where a session's events go: the contract between the drain thread and src/lib/sink/.
 *
 * All calls come from the drain thread; for a snapshot, from the thread that asked for it.
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

/* A kind of event, alive as long as a session may still deliver one. */
struct rp_event_def {
	uint32_t index;			/* unique among living definitions; small */
	uint32_t id;
	uint64_t serial;		/* unique for ever: an index may be used again */
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

/* The definition as plain data, for recovery and sinks. */
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

/* One event on its way to a sink. Pointers are valid during the call. */
struct rp_record_view {
	const struct rp_event_def *def;
	uint64_t time_ns;		/* CLOCK_MONOTONIC, never before the last one */
	uint32_t thread;
	uint32_t processor;
	const struct rp_guid *activity;	/* or NULL */
	const struct rp_guid *related_activity;
	const void *frames;		/* frame_count times 8 bytes */
	uint32_t frame_count;
	uint32_t payload_bytes;
	const void *payload;
	const struct rp_record *record;	/* all of it, as it lies in a ring; NULL: in none */
	uint32_t record_bytes;
};

struct rp_event_batch;

struct rp_sink_ops {
	/* Takes events of one ring, by rp_event_batch_deliver() of core/event_batch.h. */
	int (*run)(struct rp_sink *sink, struct rp_event_batch *run);
	/*
	 * Takes one event. 0; -EAGAIN: no room now, offer it again later; -EMSGSIZE: the format has
	 * no way to hold it, this one is lost; other: the sink failed.
	 */
	int (*event)(struct rp_sink *sink, const struct rp_record_view *record);
	/* All events up to time_ns were given; `lost` in all so far. As event(). */
	int (*sequence_point)(struct rp_sink *sink, uint64_t time_ns, uint64_t lost);
	/* Hands on what is buffered as far as it goes without waiting. -EAGAIN: some is left. */
	int (*flush)(struct rp_sink *sink);
	/* Nothing follows: complete the output. Called again after -EAGAIN. */
	int (*finish)(struct rp_sink *sink, uint64_t time_ns, uint64_t lost);
	/*
	 * The session ends without finish(): leave an output that readers take, as far as that is
	 * possible now. `lost` events were lost so far, not counting those in the sink: `pending`
	 * is final afterwards, and they are lost.
	 */
	void (*abandon)(struct rp_sink *sink, uint64_t time_ns, uint64_t lost);
	void (*destroy)(struct rp_sink *sink);
};

struct rp_sink {
	const struct rp_sink_ops *ops;
	uint64_t delivered;		/* events written, or taken by a reader */
	uint64_t pending;		/* taken, not delivered: lost if the sink fails */
	uint64_t shortened;		/* events whose payload the format made shorter */
	uint64_t bytes;			/* written */
	uint64_t memory_bytes;
	size_t waiting_bytes;		/* of output, before it takes no more: sessions lower it */
	int fd;				/* closed in a forked child; -1: none */
	struct rp_file_id file;		/* what fd stood for: a host may close and reuse numbers */
	uint64_t start_ns;		/* of a file that recovery can go on with, as its head */
	int64_t start_utc_ns;		/* says; else 0 */
	bool keep_fd;			/* destroy leaves it open */
	bool busy;			/* finish() works itself: deadlines begin after that */
	bool no_deadline;			/* may take for ever to finish: no deadline */
	bool pushes;			/* a thread of ours runs a callback for each event */
};

/*
 * Keeps a definition alive past the delivery of its last event, until as many calls let it go.
 * Takes the engine's lock.
 */
void rp_def_pin(const struct rp_event_def *def);
void rp_def_unpin(const struct rp_event_def *def);

/*
 * ringpipe's own definitions: EventsLost, PayloadsCut, Snapshot, Triggered, CoarseTime,
 * ProviderMissing, StacksCut, EventsSkipped. Sinks pass them on, not counted.
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
