/* SPDX-License-Identifier: MIT */
/*
 * Writes nettrace V4. The encoder knows no file and no session: events in, bytes out. One thread at
 * a time.
 */
#ifndef RP_NETTRACE_ENCODER_H
#define RP_NETTRACE_ENCODER_H

#include <stdbool.h>

#include <ringpipe/types.h>

#include "base/addresses.h"

struct rp_encoder;
struct rp_encoder_event_type;	/* a definition this stream knows, with its conversion plan */

struct rp_encoder_info {
	uint64_t start_ns;		/* the clock of all times below, at the start */
	int64_t start_utc_ns;		/* the same moment, since 1970 */
	uint32_t process_id;
	uint32_t processors;
	uint32_t sample_interval_ns;	/* between samples of a thread; 0: 1 ms, as .NET tells */
};

/* A definition, as the stream's metadata will tell it. Copied. */
struct rp_encoder_definition {
	const char *provider;		/* UTF-8 */
	const char *name;
	uint32_t id;
	uint8_t version;
	uint8_t level;
	uint8_t opcode;
	uint64_t keywords;
	const struct rp_field *fields;
	size_t field_count;
	bool is_wire;			/* payloads come as the stream has them */
};

struct rp_encoder_event {
	const struct rp_encoder_event_type *type;
	uint64_t time_ns;		/* not before the event encoded last */
	uint64_t thread;
	uint32_t processor;
	uint32_t frame_count;		/* up to RP_STACK_MAX */
	const uint64_t *frames;		/* unaligned is fine */
	const struct rp_guid *activity;	/* or NULL */
	const struct rp_guid *related_activity;
	const void *payload;		/* as types.h lays it out; what is missing is zero */
	size_t payload_bytes;
};

/* Makes an encoder; its output begins with the file header and the Trace object. */
int rp_encoder_create(const struct rp_encoder_info *info, struct rp_encoder **ret_encoder);
void rp_encoder_destroy(struct rp_encoder *encoder);

/* Where another encoder's stream was cut, after a block. */
struct rp_encoder_point {
	uint64_t stream_offset;
	uint64_t last_ns;		/* of its events, or before all that follow */
	uint64_t lost;			/* told by its sequence points */
	uint32_t metadata_id;		/* the highest that it used */
};

/* Makes an encoder that goes on there: its output begins with a sequence point. 0; -ENOMEM. */
int rp_encoder_resume(const struct rp_encoder_point *point, struct rp_encoder **ret_encoder);

/* The number of a thread's last event in that stream; before the first event. 0; -ENOMEM. */
int rp_encoder_resume_thread(struct rp_encoder *encoder, uint64_t thread, uint32_t sequence);

/*
 * Makes a definition known; the stream carries it before its first event, or never if it has none.
 * The type lives as long as the encoder.
 *
 * Return: 0; -EINVAL: a field's type is none, structs nest deeper than 16, an array's elements are
 * empty or of variable size; -EMSGSIZE: even with all strings empty a payload would not fit;
 * -ENOMEM.
 */
int rp_encoder_define(struct rp_encoder *encoder, const struct rp_encoder_definition *definition,
		      struct rp_encoder_event_type **ret_type);

/*
 * Adds one event: converts strings to UTF-16, gives it its thread's next number. -ENOMEM only, and
 * then the event is not in the stream. A payload of more than 65,400 bytes on the wire is cut: a
 * string at a character, an array at an element.
 */
int rp_encoder_event(struct rp_encoder *encoder, const struct rp_encoder_event *event);

/*
 * Adds a sequence point: the numbers of all threads that wrote since the last one, and `lost`, the
 * events lost in the whole session so far, as the numbers of made-up capture threads (ids from 2^63
 * on, each good for 2^31 - 1 losses). The first one, before any event, sets the base.
 */
int rp_encoder_sequence_point(struct rp_encoder *encoder, uint64_t time_ns, uint64_t lost);

/* How many events got a payload shorter than theirs. */
uint64_t rp_encoder_shortened(const struct rp_encoder *encoder);

/*
 * The distinct addresses of all stacks, in no order: no event with a stack may follow. The encoder
 * keeps 65,536 of them; `ret_more` counts how often there was another.
 */
const struct rp_address *rp_encoder_addresses(struct rp_encoder *encoder, size_t *ret_count,
				     uint64_t *ret_more);

/* Closes open blocks so that all events so far are in the output. */
int rp_encoder_flush(struct rp_encoder *encoder);

/* Flushes and writes the end of the stream. Nothing may follow. */
int rp_encoder_end(struct rp_encoder *encoder);

/*
 * Ends a stream whose output could not be written past `stream_offset`, which is the end of a
 * block: what was encoded since is dropped, and the output is a sequence point and the end of the
 * stream, to stand at that offset. `lost_before` is what the sequence points up to there told,
 * `lost` the truth now, dropped events included. Nothing may follow. -ENOMEM.
 */
int rp_encoder_cut(struct rp_encoder *encoder, uint64_t stream_offset, uint64_t time_ns,
		   uint64_t lost_before, uint64_t lost);

/*
 * The finished bytes not yet consumed, whole blocks only. `ret_events` (unless NULL): how many
 * events are among them and were not told by an earlier call.
 */
const void *rp_encoder_output(struct rp_encoder *encoder, size_t *ret_size, uint64_t *ret_events);
void rp_encoder_consume(struct rp_encoder *encoder, size_t size);

/* Bytes of memory held. */
size_t rp_encoder_memory(const struct rp_encoder *encoder);

#endif
