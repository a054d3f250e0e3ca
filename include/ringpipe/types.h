/* SPDX-License-Identifier: MIT */
/*
 * Definitions for all headers: levels, opcodes, GUIDs, and the description of an event's
 * fields. Nothing here has behaviour.
 */
#ifndef RINGPIPE_TYPES_H
#define RINGPIPE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define RP_VERSION_STRING "0.1.0"

#ifdef __cplusplus
#define RP_BEGIN_DECLS extern "C" {
#define RP_END_DECLS }
#else
#define RP_BEGIN_DECLS
#define RP_END_DECLS
#endif

#define RP_PUBLIC __attribute__((visibility("default")))

/*
 * Structs that grow. A struct that a caller fills, or that a call fills, begins with its `size`. A
 * later version of the library adds members at its end, and none of them moves.
 *
 * - Before a call, set the caller's struct to its ..._INIT, which sets `size` and makes all other
 *   members zero: the defaults of options. -EINVAL: `size` is below ..._SIZE_V1, the size in the
 *   first version.
 * - Options may be shorter or longer than the library's own: members that an older program does not
 *   have are zero; members that an older library does not have must be zero (-EINVAL).
 * - A result is filled up to the caller's `size`, with zero in members that an older library does
 *   not have.
 * - A struct that the library passes to a callback has the library's own `size`. Look at it before
 *   reading a member that came after the first version.
 *
 * These never grow: rp_guid, rp_part, rp_field, rp_enumerator, rp_enumeration, rp_counter_tag,
 * rp_activity, rp_span, rp_span_scope, rp_fields and rp_batch_event, and of what declarations make,
 * rp_event, rp_counter and rp_key. rp_reader_field and rp_reader_type may change as long as
 * <ringpipe/reader.h> is provisional.
 */
#ifdef __cplusplus
#define RP_INIT_(type) (rp_init_<type>())
extern "C++" {
template<typename T> inline T rp_init_()
{
	T value = T();

	value.size = sizeof(T);
	return value;
}
}
#else
#define RP_INIT_(type) { .size = sizeof(type) }
#endif

/* The bytes of a struct up to the end of a member. */
#ifdef __cplusplus
#define RP_SIZE_THROUGH_(type, member) \
	(offsetof(type, member) + sizeof(static_cast<type *>(nullptr)->member))
#else
#define RP_SIZE_THROUGH_(type, member) \
	(offsetof(type, member) + sizeof(((type *)0)->member))
#endif

/* The largest payload of one event, in bytes, as written: the sum of its parts. */
#define RP_PAYLOAD_MAX 65536u

/* The longest name of a provider, event, field or struct, in bytes without the NUL. */
#define RP_NAME_MAX 255u

/* Largest id of an event. TraceEvent drops events of id 65535, which it calls illegal. */
#define RP_EVENT_ID_MAX 65534u

/* An id that follows from the event's name, above 32767: the same in every build and process. */
#define RP_EVENT_ID_AUTO 0xffffffffu

/* The most frames of a stack that an event carries. */
#define RP_STACK_MAX 100u

/*
 * The last frame of a stack that was cut: it leads through a function whose unwind rules were not
 * cached yet, and not to the outermost function. Frames before it are as they were, but some may be
 * missing between them. No code lies at this address.
 */
#define RP_FRAME_CUT 0xc07u

/* Levels, EventPipe's. A session of level L takes events of level 0 and of 1 to L. */
enum rp_level {
	RP_LEVEL_LOG_ALWAYS = 0,
	RP_LEVEL_CRITICAL = 1,
	RP_LEVEL_ERROR = 2,
	RP_LEVEL_WARNING = 3,
	RP_LEVEL_INFORMATIONAL = 4,
	RP_LEVEL_VERBOSE = 5,
};

/* Opcodes that tools know. 11 to 238 are the provider's own. */
enum rp_opcode {
	RP_OPCODE_INFO = 0,
	RP_OPCODE_START = 1,
	RP_OPCODE_STOP = 2,
};

/* A GUID in the byte order of RFC 4122 text: bytes[0] is the first pair of digits. */
struct rp_guid {
	uint8_t bytes[16];
};

/*
 * Types of fields. The right column is the payload's layout as written: packed, no padding,
 * the machine's byte order.
 */
enum rp_type {
	RP_TYPE_NONE = 0,
	RP_TYPE_BOOL = 1,	/* 1 byte, 0 or 1 */
	RP_TYPE_CHAR = 2,	/* 1 byte, a character of Latin-1 */
	RP_TYPE_I8 = 3,
	RP_TYPE_U8 = 4,
	RP_TYPE_I16 = 5,
	RP_TYPE_U16 = 6,
	RP_TYPE_I32 = 7,
	RP_TYPE_U32 = 8,
	RP_TYPE_I64 = 9,
	RP_TYPE_U64 = 10,
	RP_TYPE_F32 = 11,
	RP_TYPE_F64 = 12,
	RP_TYPE_POINTER = 13,	/* 8 bytes, zero-extended */
	RP_TYPE_GUID = 14,	/* struct rp_guid */
	RP_TYPE_TIME = 15,	/* i64, nanoseconds since 1970-01-01 UTC */
	RP_TYPE_STRING = 16,	/* UTF-8, ended by one NUL byte */
	RP_TYPE_STRING16 = 17,	/* UTF-16, ended by one NUL unit */
	RP_TYPE_ARRAY = 18,	/* u16 count, then the elements */
	RP_TYPE_STRUCT = 19,	/* the members, one after another */
};

/* A value that has a name. */
struct rp_enumerator {
	const char *name;
	int64_t value;
};

/* Names of an integer's values; of one value it may have several, of most none. */
struct rp_enumeration {
	const char *name;
	const struct rp_enumerator *enumerators;
	size_t count;			/* 1 to RP_ENUMERATORS_MAX */
};

#define RP_ENUMERATORS_MAX 1024u

/*
 * One field of an event or member of a struct. `element` is the type of an ARRAY's elements: a
 * fixed-size type or STRUCT. `members` are those of a STRUCT: fixed-size types, strings, or STRUCTs
 * of such; of an array's STRUCT, no strings. The name of a STRUCT may be empty. A byte blob is an
 * ARRAY of U8. I8 to U64 may have an enumeration, for tracers that show one.
 */
struct rp_field {
	const char *name;
	const struct rp_field *members;
	uint16_t member_count;
	uint8_t type;
	uint8_t element;
	uint32_t flags;		/* enum rp_field_flags */
	const struct rp_enumeration *enumeration;	/* or NULL */
};

enum rp_field_flags {
	/* A redacted field: its value is replaced by "***", zero, or no elements. */
	RP_FIELD_SECRET = 1,
};

/* One piece of a payload: scatter on the writer's side, gathered in the ring. */
struct rp_part {
	const void *base;
	size_t size_bytes;
};

#endif
