/* SPDX-License-Identifier: MIT */
/*
 * A reader of .nettrace files of versions 4, 5 and 6, as ringpipe, the .NET runtime and
 * machine-wide collectors write them. The reader checks all data before it uses them: a damaged or
 * hostile file causes an error, never a crash or an unbounded use of memory.
 *
 *	rp_reader_open(path, &reader);
 *	while ((ret = rp_reader_next(reader, &event)) == 1) ...
 *	rp_reader_close(reader);
 *
 * The names of types, fields, labels and threads, the strings of labels, and the keys and values of
 * the header are valid UTF-8. Other bytes of the file, and NULs, become U+FFFD.
 */
#ifndef RINGPIPE_READER_H
#define RINGPIPE_READER_H

#include <stdio.h>

#include <ringpipe/field.h>
#include <ringpipe/types.h>

RP_BEGIN_DECLS

struct rp_reader;

/* The header of a trace. */
struct rp_reader_info {
	uint32_t size;
	uint32_t process_id;
	int64_t start_utc_ns;		/* the start of the recording, since 1970; 0: no date */
	uint64_t start_ticks;		/* the trace's clock at the start */
	uint64_t ticks_per_second;
	uint32_t processors;
	uint32_t pointer_bytes;
	uint32_t version;		/* of the format: 4 (also for 5) or 6 */
	uint32_t key_value_count;	/* version 6: see rp_reader_get_key_value() */
};

#define RP_READER_INFO_SIZE_V1 RP_SIZE_THROUGH_(struct rp_reader_info, key_value_count)
#define RP_READER_INFO_INIT RP_INIT_(struct rp_reader_info)

/*
 * Where a payload stores the elements of an array or the code units of a string. Version 4 has only
 * RP_READER_PLAIN.
 */
enum rp_reader_encoding {
	RP_READER_PLAIN,		/* an array follows its count; a NUL ends a string */
	RP_READER_COUNTED,		/* they follow their count, a u16 */
	RP_READER_FIXED_COUNT,		/* `fixed_count` of them; a NUL ends a string earlier */
	RP_READER_REL_LOC,		/* u16 offset from the end of the field, u16 bytes */
	RP_READER_DATA_LOC,		/* u16 offset from the start of the payload, u16 bytes */
};

/*
 * A field as the file describes it. The payload contains its value in the form of nettrace:
 *  - a bool has 4 bytes or 1, and a char 2 or 1;
 *  - a time is a number of units of 100 ns since 1601-01-01 UTC;
 *  - the first three groups of a GUID are little-endian;
 *  - a STRING16 is text in UTF-16, a STRING is text in UTF-8;
 *  - an I64 or U64 is a varint if `wire_bytes` is 0;
 *  - a type that only nettrace has (decimal) is RP_TYPE_NONE: `wire_bytes` of opaque data;
 *  - an array of arrays has STRUCT elements, each with one member without a name.
 * If this struct cannot express a field of an event, the event's type has no fields.
 */
struct rp_reader_field {
	const char *name;
	const struct rp_reader_field *members;
	uint16_t member_count;
	uint8_t type;			/* enum rp_type */
	uint8_t element;		/* of an ARRAY */
	uint8_t wire_bytes;		/* of a fixed-size value or element, else 0 */
	uint8_t encoding;		/* enum rp_reader_encoding, of an ARRAY or text */
	uint16_t fixed_count;
	const void *reserved2;		/* NULL */
};

/*
 * A type of event, as the file describes it. It is valid until rp_reader_close(). A file may define
 * an event's type again, which is then another struct.
 */
struct rp_reader_type {
	const char *provider;
	const char *name;		/* may be "" */
	uint32_t id;
	uint32_t metadata_id;
	uint32_t version;
	uint32_t level;
	uint32_t opcode;
	uint32_t field_count;
	uint64_t keywords;
	const struct rp_reader_field *fields;
	void *user;			/* for the caller; the reader sets it to NULL */
	const char *message;		/* version 6: the template of a readable text, or "" */
	const char *description;	/* version 6, or "" */
	struct rp_guid provider_guid;	/* version 6; zero: the hash of the name */
};

/* A name and a value that version 6 attaches to an event. */
struct rp_reader_label {
	const char *key;
	const char *text;		/* NULL: the value is `number` */
	int64_t number;
};

/* One event. Its pointers are valid until the next rp_reader_next(). */
struct rp_reader_event {
	uint32_t size;
	uint32_t sequence;		/* its number among the events of `capture_thread` */
	struct rp_reader_type *type;
	int64_t time_ns;		/* since the start of the recording, limited to 64 bits */
	uint64_t thread;		/* its id in the system */
	uint64_t capture_thread;	/* the thread that wrote the event; version 6: an index */
	uint32_t processor;
	uint32_t frame_count;
	const void *frames;		/* innermost first, pointer_bytes each, unaligned */
	struct rp_guid activity;	/* zero: none */
	struct rp_guid related_activity;
	const void *payload;
	size_t payload_bytes;
	uint64_t process;		/* of the thread; version 4: info.process_id */
	const char *thread_name;	/* version 6, or "" */
	/* The values of the type, unless the event's labels replace them. */
	uint64_t keywords;
	uint32_t level;
	uint32_t opcode;
	uint32_t event_version;
	uint32_t label_count;
	const struct rp_reader_label *labels;
	uint8_t trace_id[16];		/* W3C trace context; zero: none */
	uint64_t span_id;		/* a `traceparent` header has it as %016x; zero: none */
};

#define RP_READER_EVENT_SIZE_V1 RP_SIZE_THROUGH_(struct rp_reader_event, span_id)
#define RP_READER_EVENT_INIT RP_INIT_(struct rp_reader_event)

/* Stats of the events read so far. */
struct rp_reader_stats {
	uint32_t size;
	uint32_t ended;			/* 1: the end of the stream was seen */
	uint64_t events;
	uint64_t lost;			/* from gaps in the numbers that events and points state */
	uint64_t threads;		/* threads of the events; version 4: capture threads */
	uint64_t sequence_points;
	uint64_t bytes;
	uint64_t unordered;		/* events earlier than the previous event of the stream */
	uint64_t damaged_ranges;	/* rp_reader_resume_after_damage(): see below */
	uint64_t damaged_bytes;		/* in all damaged ranges */
	uint64_t lost_to_damage;	/* events; `lost` does not count them */
};

#define RP_READER_STATS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_reader_stats, unordered)
#define RP_READER_STATS_INIT RP_INIT_(struct rp_reader_stats)

/* The times of the events that a reader returns, since the start of the recording. */
struct rp_reader_range {
	uint32_t size;
	uint32_t reserved;		/* 0 */
	int64_t from_ns;
	int64_t to_ns;			/* excluded */
};

#define RP_READER_RANGE_SIZE_V1 RP_SIZE_THROUGH_(struct rp_reader_range, to_ns)
/* All times. */
#define RP_READER_RANGE_INIT { sizeof(struct rp_reader_range), 0, INT64_MIN, INT64_MAX }

/* A damaged part of a stream, which a reader skipped. */
struct rp_reader_damage {
	uint32_t size;
	uint32_t reserved;		/* 0 */
	uint64_t offset;		/* of its first byte in the stream */
	uint64_t bytes;
	const char *reason;		/* a constant such as "a damaged event" */
};

#define RP_READER_DAMAGE_SIZE_V1 RP_SIZE_THROUGH_(struct rp_reader_damage, reason)
#define RP_READER_DAMAGE_INIT RP_INIT_(struct rp_reader_damage)

/*
 * Open a file and read its header, the part before the first event.
 * @path: the file.
 * @ret_reader: on success, the reader. The caller passes it to rp_reader_close().
 *
 * Context: any thread; allocates; blocks as read(2) does.
 * Return: 0; -errno of open(2) or read(2); -EBADMSG if the file is not a nettrace file, or its
 * header is damaged or incomplete; -EPROTONOSUPPORT if the reader does not know the file's version;
 * -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_reader_open(const char *path, struct rp_reader **ret_reader);

/*
 * Open a descriptor, which may be a pipe or a socket, as rp_reader_open() does. The reader does not
 * close the descriptor, which must stay open until rp_reader_close().
 * @fd: the descriptor, open for reading.
 *
 * Context, Return: as rp_reader_open().
 */
RP_PUBLIC int rp_reader_open_fd(int fd, struct rp_reader **ret_reader);

/*
 * Open a descriptor as rp_reader_open_fd() does, and explain a failure.
 * @fd: the descriptor, open for reading.
 * @ret_message: a sentence about the failure, with the offset in the file; "" if there is none. For
 *	a file of an unknown version, it names that version and those that the reader knows. The
 *	sentence is cut to message_bytes, its NUL included.
 * @message_bytes: the space at `ret_message`.
 *
 * Context, Return: as rp_reader_open().
 */
RP_PUBLIC int rp_reader_open_explained(int fd, struct rp_reader **ret_reader, char *ret_message,
				       size_t message_bytes);

/*
 * Open a trace in memory. The caller must not free or change it before rp_reader_close().
 * @bytes, @size: the trace.
 *
 * Context, Return: as rp_reader_open().
 */
RP_PUBLIC int rp_reader_open_memory(const void *bytes, size_t size, struct rp_reader **ret_reader);

/*
 * Close the reader and free its memory, the types of its events included. NULL is allowed.
 *
 * Context: any thread.
 */
RP_PUBLIC void rp_reader_close(struct rp_reader *reader);

/*
 * Make a reader continue after damage. Without this call, the first damage ends the reading.
 *
 * rp_reader_next() then skips each block that is damaged, and resumes where a chain of blocks
 * without a contradiction begins. It returns no event of a damaged block, and no event whose type,
 * thread or label list is unknown because of damage: it counts them in `lost_to_damage`. The stack
 * of an event is empty if it is unknown. After the next sequence point, all stacks and label lists
 * are known again.
 *
 * The format has no checksums, so the function returns a wrong value that contradicts nothing, such
 * as one in a payload, a name or an address of a stack. A stream of version 6 may reuse the index
 * of a thread or the id of a type. The reader assumes that the damaged part did not contain the
 * first removal of a thread, of all threads or of all types in the stream.
 *
 * Context: any thread, while no other uses the reader, before the first event.
 * Return: 0; -EINVAL if `reader` is NULL or has returned an event.
 */
RP_PUBLIC int rp_reader_resume_after_damage(struct rp_reader *reader);

/*
 * Make a reader return only the events of a range of time. The reader still reads the whole stream,
 * because events depend on definitions, threads and stacks before them. The member `events` of the
 * stats counts the events of the range; the other members describe the whole stream.
 * @range: the range; its start is before its end.
 *
 * Context: any thread, while no other uses the reader, before the first event.
 * Return: 0; -EINVAL if `reader` or `range` is NULL, the size of `range` is not valid, the range is
 * empty, or the reader has returned an event.
 */
RP_PUBLIC int rp_reader_set_range(struct rp_reader *reader, const struct rp_reader_range *range);

/*
 * Return a damaged range that the reader has skipped so far.
 * @index: 0 for the first range in the stream. The reader remembers the first 1,024 ranges; the
 *	stats count all of them.
 *
 * Context: any thread, while no other uses the reader.
 * Return: 0; -ENOENT if there is no such range, or the reader does not remember it; -EINVAL if
 * `ret_damage` is NULL or its size is too small.
 */
RP_PUBLIC int rp_reader_get_damage(const struct rp_reader *reader, uint64_t index,
				   struct rp_reader_damage *ret_damage);

/*
 * Read the next event in the order of the stream.
 *
 * Context: any thread, one at a time for each reader; allocates; blocks as read(2) does.
 * Return: 1 with an event; 0 at the end of the stream; -ENODATA if the file stops before the end of
 * the stream, after all complete events were returned; -EBADMSG if the file is damaged:
 * rp_reader_error() describes the damage; -EPROTONOSUPPORT if the file has blocks of a later
 * version; -EINVAL if the size of `ret_event` is too small; -errno of read(2); -ENOMEM if an
 * allocation fails. After an error of the stream, each further call returns the same error.
 */
RP_PUBLIC int rp_reader_next(struct rp_reader *reader, struct rp_reader_event *ret_event);

/*
 * Return the header of the stream.
 *
 * Context: any thread, while no other uses the reader.
 * Return: 0; -EINVAL if `ret_info` is NULL or its size is too small.
 */
RP_PUBLIC int rp_reader_get_info(const struct rp_reader *reader, struct rp_reader_info *ret_info);

/*
 * Return a key and its value from the header of a file of version 6.
 * @index: 0 to `key_value_count` - 1, in the order of the file
 * @ret_key: the key, valid as long as the reader
 * @ret_value: the same
 *
 * Context: any thread, while no other uses the reader.
 * Return: 0; -ENOENT if `index` is too high.
 */
RP_PUBLIC int rp_reader_get_key_value(const struct rp_reader *reader, uint32_t index,
				      const char **ret_key, const char **ret_value);

/*
 * Return the stats of the events read so far.
 *
 * Context: any thread, while no other uses the reader.
 * Return: 0; -EINVAL if `ret_stats` is NULL or its size is too small.
 */
RP_PUBLIC int rp_reader_get_stats(const struct rp_reader *reader,
				  struct rp_reader_stats *ret_stats);

/*
 * Return a sentence about the last error.
 *
 * Context: any thread, while no other uses the reader.
 * Return: the sentence, with the error's offset in the file; "" without an error. It is valid until
 * the next call.
 */
RP_PUBLIC const char *rp_reader_error(const struct rp_reader *reader);

/*
 * Print an event's fields as the members of one JSON object: `{"order_id":1,"customer":"x"}`.
 * 64-bit integers are numbers, blobs are hexadecimal, payloads of components that describe
 * themselves are objects, GUIDs and times are strings, NaN and infinities are null. If the payload
 * ends before its last field, the object ends there with the member "…truncated":true. If the file
 * describes no field of the event, its payload is the hexadecimal member "…payload".
 * @stream: the stream to print to.
 *
 * Context: any thread. A write to the stream may raise SIGPIPE or SIGXFSZ; the library does not
 * block these signals.
 * Return: 0; -EIO if a write to the stream failed.
 */
RP_PUBLIC int rp_reader_print_json(const struct rp_reader_event *event, FILE *stream);

RP_END_DECLS

#endif
