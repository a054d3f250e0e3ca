/* SPDX-License-Identifier: MIT */
/*
 * Provisional: this header may still change in ways that need programs to be rebuilt.
 *
 * Reads .nettrace files of versions 4, 5 and 6: ours, the .NET runtime's and those of machine-wide
 * collectors. Everything is checked before it is believed: a damaged or hostile file gives an
 * error, never a crash or unbounded memory.
 *
 *	rp_reader_open(path, &reader);
 *	while ((ret = rp_reader_next(reader, &event)) == 1) ...
 *	rp_reader_close(reader);
 */
#ifndef RINGPIPE_READER_H
#define RINGPIPE_READER_H

#include <stdio.h>

#include <ringpipe/field.h>
#include <ringpipe/types.h>

RP_BEGIN_DECLS

struct rp_reader;

/* About the recording as a whole. */
struct rp_reader_info {
	uint32_t size;
	uint32_t process_id;
	int64_t start_utc_ns;		/* since 1970 */
	uint64_t start_ticks;		/* the clock at that moment */
	uint64_t ticks_per_second;
	uint32_t processors;
	uint32_t pointer_bytes;
	uint32_t version;		/* of the format: 4 (also for 5) or 6 */
	uint32_t key_value_count;	/* version 6: see rp_reader_get_key_value() */
};

#define RP_READER_INFO_SIZE_V1 RP_SIZE_THROUGH_(struct rp_reader_info, key_value_count)
#define RP_READER_INFO_INIT RP_INIT_(struct rp_reader_info)

/*
 * Where the elements of an array or the code units of a text are. Version 4 has only the first:
 * an array has its count in front, and a text ends with a NUL.
 */
enum rp_reader_encoding {
	RP_READER_PLAIN,
	RP_READER_COUNTED,		/* a u16 count in front */
	RP_READER_FIXED_COUNT,		/* `fixed_count` of them; a NUL ends a text earlier */
	RP_READER_REL_LOC,		/* u16 offset after the field, u16 bytes: they are there */
	RP_READER_DATA_LOC,		/* the same from the payload's beginning */
};

/*
 * A field as the file describes it. `type` is one of RP_TYPE_*; the payload has it as nettrace
 * stores it: a bool in 4 bytes or 1, a char in 2 or 1, a time in units of 100 ns since 1601-01-01
 * UTC, a GUID with its first three groups little-endian. STRING16 is text in UTF-16, STRING text in
 * UTF-8. I64 and U64 without `wire_bytes` are varints. A type that only nettrace has (decimal) is
 * RP_TYPE_NONE: `wire_bytes` of opaque data. An array of arrays has STRUCT elements, each with one
 * member without a name. A type with fields that cannot be expressed here is shown without fields.
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

/* A kind of event, as the file describes it. Lives as long as the reader. */
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
	void *user;			/* the caller's, NULL at first */
	const char *message;		/* version 6: the template of a text for people, or "" */
	const char *description;	/* version 6, or "" */
	struct rp_guid provider_guid;	/* version 6; zero: the hash of the name */
};

/* A name and a value that version 6 attaches to an event. */
struct rp_reader_label {
	const char *key;
	const char *text;		/* NULL: the value is `number` */
	int64_t number;
};

/* One event. Pointers are valid until the next call. */
struct rp_reader_event {
	uint32_t size;
	uint32_t sequence;		/* the thread's number for it */
	struct rp_reader_type *type;
	int64_t time_ns;		/* since the start of the recording */
	uint64_t thread;		/* its id in the system */
	uint64_t capture_thread;	/* the thread that wrote the event; version 6: an index */
	uint32_t processor;
	uint32_t frame_count;
	const void *frames;		/* innermost first, pointer_bytes each, unaligned */
	struct rp_guid activity;	/* zero: none */
	struct rp_guid related_activity;
	const void *payload;
	size_t payload_bytes;
	uint64_t process;		/* of the thread; in version 4 the file's */
	const char *thread_name;	/* version 6, or "" */
	/* As the type has them, except where the event's labels replace them. */
	uint64_t keywords;
	uint32_t level;
	uint32_t opcode;
	uint32_t event_version;
	uint32_t label_count;
	const struct rp_reader_label *labels;
	uint8_t trace_id[16];		/* W3C trace context; zero: none */
	uint64_t span_id;
};

#define RP_READER_EVENT_SIZE_V1 RP_SIZE_THROUGH_(struct rp_reader_event, span_id)
#define RP_READER_EVENT_INIT RP_INIT_(struct rp_reader_event)

/* Stats of the events read so far. */
struct rp_reader_stats {
	uint32_t size;
	uint32_t ended;			/* 1: the end of the stream was seen */
	uint64_t events;
	uint64_t lost;			/* by the numbers of threads and sequence points */
	uint64_t threads;		/* capture threads that wrote */
	uint64_t sequence_points;
	uint64_t bytes;
	uint64_t unordered;		/* events earlier than the one before them in the stream */
};

#define RP_READER_STATS_SIZE_V1 RP_SIZE_THROUGH_(struct rp_reader_stats, unordered)
#define RP_READER_STATS_INIT RP_INIT_(struct rp_reader_stats)

/*
 * Open a file and read its head.
 *
 * Context: any thread; allocates.
 * Return: 0; what open(2) said; -EBADMSG: not a nettrace file, or its head is damaged;
 * -EPROTONOSUPPORT: a version this reader does not know; -ENOMEM.
 */
RP_PUBLIC int rp_reader_open(const char *path, struct rp_reader **ret_reader);

/*
 * Open a descriptor, which may be a pipe or a socket. The reader does not close it.
 *
 * Context, Return: as rp_reader_open().
 */
RP_PUBLIC int rp_reader_open_fd(int fd, struct rp_reader **ret_reader);

/*
 * Open a descriptor as rp_reader_open_fd() does, and explain a failure.
 * @ret_message: a sentence with the offset in the file, such as which version the file has and
 *	which the reader reads; "" when there is none. Up to message_bytes with its NUL.
 *
 * Context and return: as rp_reader_open(); also what read(2) says.
 */
RP_PUBLIC int rp_reader_open_explained(int fd, struct rp_reader **ret_reader, char *ret_message,
				       size_t message_bytes);

/*
 * Open a recording in memory, which the caller keeps until rp_reader_close().
 *
 * Context, Return: as rp_reader_open().
 */
RP_PUBLIC int rp_reader_open_memory(const void *bytes, size_t size, struct rp_reader **ret_reader);

/*
 * Close the reader and free its memory. Its types are invalid afterwards. NULL is allowed.
 *
 * Context: any thread.
 */
RP_PUBLIC void rp_reader_close(struct rp_reader *reader);

/*
 * Read the next event in the order of the stream.
 *
 * Return: 1 with an event; 0 at the end of the stream; -ENODATA: the file stops before its end (all
 * whole events before that were given); -EBADMSG: damaged, rp_reader_error() says how and where;
 * -EPROTONOSUPPORT: blocks of a later version; -EINVAL: the size of `ret_event` is too small; -EIO
 * and what else read(2) says; -ENOMEM. After an error of the stream every further call returns it
 * again.
 */
RP_PUBLIC int rp_reader_next(struct rp_reader *reader, struct rp_reader_event *ret_event);

/*
 * Return what the head of the stream contains.
 *
 * Return: 0; -EINVAL: NULL, or the size of `ret_info` is too small.
 */
RP_PUBLIC int rp_reader_get_info(const struct rp_reader *reader, struct rp_reader_info *ret_info);

/*
 * Return a key and its value from the head of a file of version 6.
 * @index: 0 to `key_value_count` - 1, in the order of the file
 * @ret_key: UTF-8, valid as long as the reader
 * @ret_value: the same
 *
 * Context: any thread, while no other uses the reader.
 * Return: 0; -ENOENT: there are fewer.
 */
RP_PUBLIC int rp_reader_get_key_value(const struct rp_reader *reader, uint32_t index,
				      const char **ret_key, const char **ret_value);

/*
 * Return the stats of the events read so far.
 *
 * Return: 0; -EINVAL: NULL, or the size of `ret_stats` is too small.
 */
RP_PUBLIC int rp_reader_get_stats(const struct rp_reader *reader,
				  struct rp_reader_stats *ret_stats);

/*
 * Return a sentence about the last error, with its offset in the file; "" without an error.
 *
 * Context: any thread, while no other uses the reader.
 */
RP_PUBLIC const char *rp_reader_error(const struct rp_reader *reader);

/*
 * Print an event's fields as the members of one JSON object: `{"order_id":1,"customer":"x"}`.
 * 64-bit integers are numbers, blobs are hexadecimal, GUIDs and times are strings, NaN and
 * infinities are null. A payload shorter than its description ends the object early with
 * "…truncated":true.
 *
 * Context: any thread. The stream is the caller's, and so are the signals of writing to it.
 * Return: 0; -EIO when the stream refused.
 */
RP_PUBLIC int rp_reader_print_json(const struct rp_reader_event *event, FILE *stream);

RP_END_DECLS

#endif
