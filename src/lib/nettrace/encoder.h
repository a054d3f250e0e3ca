/* SPDX-License-Identifier: MIT */
/*
 * Writes nettrace V4 or V6. The encoder turns events into bytes, and knows neither the file nor the
 * session. One thread at a time may use it.
 */
#ifndef RP_NETTRACE_ENCODER_H
#define RP_NETTRACE_ENCODER_H

#include <stdbool.h>

#include <ringpipe/types.h>

#include "base/addresses.h"
#include "base/event_definition.h"

struct rp_encoder;
struct rp_outbuf;
struct rp_thread_row;
struct rp_encoder_event_type;	/* a definition this stream knows, with its conversion plan */

struct rp_encoder_info {
	uint64_t start_ns;		/* start of the stream, on the clock of the events */
	int64_t start_utc_ns;		/* the same moment, since 1970 */
	uint32_t process_id;
	uint32_t processors;
	uint32_t sample_interval_ns;	/* between samples of a thread; 0: 1 ms, .NET's value */
	uint32_t version;		/* RP_NETTRACE_V6; otherwise 4 */
	uint32_t page_bytes;		/* of the system; 0: 4096 */
	/*
	 * V6: the first 8 bytes of the activity ids that the process itself makes. Other activity
	 * ids came from a traceparent, so they are also trace ids. 0: the stream has no trace ids.
	 */
	uint64_t own_ids;
};

struct rp_encoder_event {
	const struct rp_encoder_event_type *type;
	uint64_t time_ns;		/* not before the event encoded last */
	uint64_t thread;
	uint32_t process;		/* V6: of the thread's first event; 0: the stream's */
	uint32_t processor;
	uint32_t frame_count;		/* up to RP_STACK_MAX */
	const uint64_t *frames;		/* unaligned is fine */
	const struct rp_guid *activity;	/* or NULL */
	const struct rp_guid *related_activity;
	/*
	 * V6: a label list of another stream, as its LabelList block has it. The event gets this
	 * list instead of one of the ids above. NULL: none.
	 */
	const uint8_t *labels;
	size_t label_bytes;
	/*
	 * V6: a row of another stream, whose name, keys and values the thread gets. NULL, or a row
	 * with neither: the thread keeps its own.
	 */
	const struct rp_thread_row *row;
	const void *payload;		/* in the layout of types.h; missing bytes are zero */
	size_t payload_bytes;
};

/* Make an encoder. Its output begins with the file header and the Trace object. 0; -ENOMEM. */
int rp_encoder_create(const struct rp_encoder_info *info, struct rp_encoder **ret_encoder);
void rp_encoder_destroy(struct rp_encoder *encoder);

/* Where another encoder's stream was cut, after a block. */
struct rp_encoder_point {
	uint64_t stream_offset;
	uint64_t last_ns;		/* of its last event, or before all later events */
	uint64_t lost;			/* in its last sequence point */
	uint32_t metadata_id;		/* the highest metadata id in it */
	uint32_t version;
	uint32_t process_id;
	uint64_t own_ids;		/* as in struct rp_encoder_info */
};

/* Make an encoder that continues there. Its output begins with a sequence point. 0; -ENOMEM. */
int rp_encoder_resume(const struct rp_encoder_point *point, struct rp_encoder **ret_encoder);

/*
 * Set the number of a thread's last event in that stream. Call it before the first event. Not for
 * V6, where all numbers start again. 0; -ENOMEM.
 */
int rp_encoder_resume_thread(struct rp_encoder *encoder, uint64_t thread, uint32_t sequence);

/*
 * Add a definition. The encoder writes it to the stream just before the first event of `ret_type`,
 * and not at all if there is no such event. The type lives as long as the encoder.
 *
 * Return: 0; -EINVAL: a field has an unknown type, structs nest deeper than 16, a struct contains
 * an array or lacks its members, or an array's elements are empty or of variable size; -EMSGSIZE: a
 * payload would be too long even if all strings and arrays were empty, or, in V6, the definition is
 * longer than 64 KB; -ENOMEM.
 */
int rp_encoder_define(struct rp_encoder *encoder, const struct rp_definition *definition,
		      struct rp_encoder_event_type **ret_type);

/* Return: the metadata id of the definition that is added next. */
uint32_t rp_encoder_next_id(const struct rp_encoder *encoder);

/*
 * As rp_encoder_define(), with a definition that is encoded already, as the payload of V4's
 * metadata event or as V6's row. The payloads of its events are not converted. The encoder takes
 * the memory of `definition`, also on failure. 0; -ENOMEM.
 */
int rp_encoder_define_encoded(struct rp_encoder *encoder, struct rp_outbuf *definition,
			      struct rp_encoder_event_type **ret_type);

/*
 * Add one event. The encoder converts its strings to UTF-16 and gives it the next number of its
 * thread (V6: of the stream). A payload of more than 65,400 bytes on the wire is cut: a string at a
 * character, an array at an element. Return: 0; -ENOMEM: the event is not in the stream.
 */
int rp_encoder_event(struct rp_encoder *encoder, const struct rp_encoder_event *event);

/*
 * Add a sequence point. In V4 it has the sequence number of the last event of each thread that
 * wrote since the previous point; in V6, all events have one capture thread and so one number.
 * `lost` is the number of events that the session has lost so far. It becomes the numbers of
 * artificial capture threads: in V4 ids from 2^63 on, each for up to 2^31 - 1 losses; in V6 index
 * 1. In V4, add the first point before any event, because readers subtract its numbers from later
 * ones. Return: 0; -ENOMEM.
 */
int rp_encoder_sequence_point(struct rp_encoder *encoder, uint64_t time_ns, uint64_t lost);

/* Return the number of events whose payload was cut. */
uint64_t rp_encoder_shortened(const struct rp_encoder *encoder);

/*
 * Return the distinct addresses of all stacks, in no order. No event with a stack may follow. The
 * encoder keeps 65,536 addresses; `ret_more` is how often an event had an address that it did not
 * keep.
 */
const struct rp_address *rp_encoder_addresses(struct rp_encoder *encoder, size_t *ret_count,
				     uint64_t *ret_more);

/* Close the open blocks, so that all events so far are in the output. 0; -ENOMEM. */
int rp_encoder_flush(struct rp_encoder *encoder);

/* Flush, and write the end of the stream. Nothing may follow. 0; -ENOMEM. */
int rp_encoder_end(struct rp_encoder *encoder);

/*
 * End a stream whose output could not be written past `stream_offset`, which is the end of a block.
 * The encoder drops everything after that offset. Its output is then a sequence point and the end
 * of the stream, to be written at that offset. `lost_before` is the number of losses in the last
 * sequence point before the offset, `lost` the number now, dropped events included. Nothing may
 * follow. -ENOMEM.
 */
int rp_encoder_cut(struct rp_encoder *encoder, uint64_t stream_offset, uint64_t time_ns,
		   uint64_t lost_before, uint64_t lost);

/* Return the finished bytes that are not consumed yet. They end at the end of a block. */
const void *rp_encoder_output(struct rp_encoder *encoder, size_t *ret_size);
void rp_encoder_consume(struct rp_encoder *encoder, size_t size);

/*
 * Return the number of events that are complete in the bytes consumed so far, without those of
 * internal definitions. An event counts as soon as its last byte is consumed, even if the rest of
 * its block is not.
 */
uint64_t rp_encoder_consumed_events(const struct rp_encoder *encoder);

/* Return the bytes of memory that the encoder uses. */
size_t rp_encoder_memory(const struct rp_encoder *encoder);

#endif
