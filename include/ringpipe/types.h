/* SPDX-License-Identifier: MIT */
/*
 * What every other header shares: levels, opcodes, GUIDs, and the description of an event's
 * fields. Nothing here has behaviour.
 */
#ifndef RINGPIPE_TYPES_H
#define RINGPIPE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define RP_VERSION "0.1.0"

#ifdef __cplusplus
#define RP_BEGIN_DECLS extern "C" {
#define RP_END_DECLS }
#else
#define RP_BEGIN_DECLS
#define RP_END_DECLS
#endif

#define RP_PUBLIC __attribute__((visibility("default")))

/* The largest payload of one event, in bytes, as written: the sum of its parts. */
#define RP_PAYLOAD_MAX 65536u

/* The longest name of a provider, event, field or struct, in bytes without the NUL. */
#define RP_NAME_MAX 255u

/* The most frames of a stack that an event carries. */
#define RP_STACK_MAX 100u

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
	/* Of an event's field: nobody is given its value, but "***", zero, or no elements. */
	RP_FIELD_SECRET = 1,
};

/* One piece of a payload: scatter on the writer's side, gathered in the ring. */
struct rp_part {
	const void *base;
	size_t size_bytes;
};

#endif
