/* SPDX-License-Identifier: MIT */
/*
 * The reader's parts: reader.c has the events, reader_open.c the beginning of a file, reader_v4.c
 * and reader_v6.c the outer layers of the two formats, reader_take.c what all of them take.
 */
#ifndef RP_NETTRACE_READER_PARTS_H
#define RP_NETTRACE_READER_PARTS_H

#include <ringpipe/reader.h>

#include <stdbool.h>

#include "nettrace/describe.h"
#include "nettrace/event_header.h"
#include "nettrace/format.h"
#include "nettrace/label_lists.h"
#include "nettrace/point_index.h"
#include "nettrace/reader_resume.h"
#include "nettrace/source.h"
#include "nettrace/thread_rows.h"
#include "nettrace/thread_table.h"

/* The bits of a gap's number that a thread's slot has. */
#define RP_READER_GAP_MASK 0x3fffffffu

struct rp_key_value {
	const char *key, *value;
};

/* A part of the stream, from one block's first byte to the end of a block. */
struct rp_reader_span {
	uint64_t begin, end;
};

/* A block that was read completely. */
struct rp_reader_block {
	uint64_t begin, end;		/* offsets in the stream */
	enum rp_block_kind kind;
	uint32_t flags;			/* of a sequence point: enum rp_sequence_point_flag */
};

struct rp_reader {
	struct rp_byte_source source;
	int own_fd;			/* to be closed, or -1 */
	int error;			/* sticky */
	bool ended;
	bool is_growing;		/* at the end, rp_reader_next() returns -EAGAIN */
	char message[160];
	struct rp_reader_info info;
	struct rp_reader_stats stats;
	struct rp_type_table types;
	struct rp_thread_table threads;	/* V4: by thread id */
	struct rp_thread_rows thread_rows; /* V6: by index */
	struct rp_point_index frames;
	struct rp_label_lists labels;	/* V6 */
	struct rp_outbuf key_values;	/* V6: struct rp_key_value; the texts are the types' */

	/* The block whose events rp_reader_next() returns. */
	struct rp_cursor events;
	struct rp_wire_layout layout;	/* `start` is NULL: there is none */
	uint64_t block_offset;
	uint32_t minor_version;		/* V6 */
	bool truncated;			/* the file ended inside the block */
	struct rp_wire_event event;
	struct rp_reader_event returned; /* `event`, as rp_reader_next_ref() returned it */
	uint32_t *sequence;		/* of its capture thread; NULL: nothing to repeat */
	bool is_plain;			/* for tests: every event takes the general path */
	bool has_last_time;
	uint64_t last_time;
	uint64_t point_time;		/* V6: of the last sequence point */
	uint64_t lost_before;		/* losses just before the last event, by its number */
	uint32_t sample_interval_ns;	/* V4: from the head */

	/* Parts of the stream to read; see reader_range.c. */
	struct rp_reader_span *spans;	/* ascending; NULL: all of the stream */
	size_t span_count, span;
	uint64_t range_end;		/* of `spans`: offset after the events of the range */
	uint32_t gap;			/* number of gaps before the current offset */
	struct rp_reader_block block;	/* the current one */
	void (*on_block)(void *data, const struct rp_reader_block *block);
	void *on_block_data;
	bool has_range;
	int64_t from_ns, to_ns;		/* the events to return, `to_ns` excluded */
	bool (*is_kept)(const struct rp_reader_type *type);	/* at any time; or NULL */

	struct rp_reader_resume resume;
};

/*
 * Open a source, as rp_reader_open_explained() does with a descriptor. The reader owns the source,
 * whatever the result.
 */
int rp_reader_open_source(const struct rp_byte_source *source, struct rp_reader **ret_reader,
			  char *ret_message, size_t message_bytes);

/*
 * Read the next event as rp_reader_next() does, without a copy.
 * @ret_event: the event, which belongs to the reader and is valid until its next call.
 */
int rp_reader_next_ref(struct rp_reader *reader, const struct rp_reader_event **ret_event);

/*
 * Read only these parts of the stream from now on. The blocks in them must suffice: they have the
 * definitions, threads and label lists that their events refer to. Numbers of events that are
 * missing between two parts do not count as losses.
 * @spans: ascending, of malloc(3); the reader owns them, whatever the result.
 */
void rp_reader_select(struct rp_reader *reader, struct rp_reader_span *spans, size_t count);

/*
 * Return only the events from `from_ns` on and before `to_ns`, and those of types that `is_kept`
 * accepts, which may be NULL.
 */
void rp_reader_limit_time(struct rp_reader *reader, int64_t from_ns, int64_t to_ns,
			  bool (*is_kept)(const struct rp_reader_type *type));

/* Whether the time of an event is in the limits; the reader also returns events of kept types. */
static inline bool rp_reader_is_inside(const struct rp_reader *reader,
				       const struct rp_reader_event *event)
{
	return !reader->has_range || (event->time_ns >= reader->from_ns &&
				      event->time_ns < reader->to_ns);
}

/* Whether to skip the event in `returned`. */
bool rp_reader_is_outside(struct rp_reader *reader);

/* Go to the next part, if the current one was read. Return: false: there is none, or an error. */
bool rp_reader_enter_span(struct rp_reader *reader);

/* Note a gap in what is read: no thread's number before it is comparable with one after it. */
void rp_reader_add_gap(struct rp_reader *reader);

/* Note the start and the end of a block. */
void rp_reader_begin_block(struct rp_reader *reader);
void rp_reader_end_block(struct rp_reader *reader);

/* Record an error with its offset and message, and return it. */
__attribute__((format(printf, 4, 5)))
int rp_reader_fail(struct rp_reader *reader, int error, uint64_t offset, const char *format, ...);

/* Take bytes of the stream. On failure, the error is recorded. */
int rp_reader_take(struct rp_reader *reader, size_t size, const uint8_t **ret_bytes);
int rp_reader_take_u32(struct rp_reader *reader, uint32_t *ret_value);

/*
 * Take a block's content. If the stream ends inside a block of events, the block has the bytes that
 * exist, and `truncated` is set.
 */
int rp_reader_take_content(struct rp_reader *reader, uint32_t size, bool has_events,
			   struct rp_cursor *ret_block);

/* Begin to return the events of a block. */
int rp_reader_begin_events(struct rp_reader *reader, struct rp_cursor block, uint64_t offset);

int rp_reader_take_stacks(struct rp_reader *reader, struct rp_cursor block, uint64_t offset);

/*
 * Count losses by the step from a thread's last number to the number before its next. A backward
 * step counts as INT32_MAX, the largest step, as in TraceEvent.
 */
static inline void rp_reader_count_lost(struct rp_reader *reader, uint32_t last,
					uint32_t expected)
{
	int32_t step = (int32_t)(expected - last);

	if (step)
		reader->stats.lost += (uint32_t)(step > 0 ? step : INT32_MAX);
}

/*
 * Count missing events by such a step: as losses if the numbers are comparable, otherwise as lost
 * to damage if the reader resumes after it.
 */
void rp_reader_count_missing(struct rp_reader *reader, uint32_t last, uint32_t expected,
			     bool is_comparable);

/* Parse 16 bytes: year, month, day of week, day, hour, minute, second, millisecond. 0: no time. */
int64_t rp_reader_utc_ns(const uint8_t *bytes);

/* Check the clock's rate and the size of pointers. Return: 0; the error, which is recorded. */
int rp_reader_check_info(struct rp_reader *reader);

/* Take the file header and the Trace object or block, after the magic. */
int rp_reader_take_header_v4(struct rp_reader *reader, uint32_t name_bytes);
int rp_reader_take_header_v6(struct rp_reader *reader);

/* Return the kind of block that an object of V4 is; RP_BLOCK_END: another object. */
enum rp_block_kind rp_block_kind_of(const uint8_t *name, size_t bytes);

/* Take an object or block. Return: 1: it was read; 0: the end of the stream; negative: an error. */
int rp_reader_take_object_v4(struct rp_reader *reader);
int rp_reader_take_block_v6(struct rp_reader *reader);

/* Take the bytes after the last event of a block. */
int rp_reader_end_events_v4(struct rp_reader *reader);

#endif
